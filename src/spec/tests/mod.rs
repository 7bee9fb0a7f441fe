mod definitions;
mod files;
mod upstream;
