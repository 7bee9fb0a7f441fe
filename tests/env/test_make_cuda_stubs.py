import ctypes
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MAKE = Path(__file__).with_name("make_cuda_stubs.py")


def compile_library(folder: Path, name: str, source: str, *flags: str, script: str = "") -> Path:
    code, exports, library = folder / "code.c", folder / "exports.map", folder / name
    code.write_text(source)
    exports.write_text(script)
    version_script = [f"-Wl,--version-script={exports}"] if script else []
    command = ["gcc", "-shared", "-fPIC", "-o", str(library), str(code), f"-Wl,-soname,{name}"]
    subprocess.run([*command, *version_script, *flags], check=True)
    return library


class MakeCudaStubs(unittest.TestCase):
    def test_a_library_loads_with_the_stand_ins_only(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            real, torch, stubs = (Path(scratch, name) for name in ("real", "torch", "stubs"))
            real.mkdir()
            torch.mkdir()
            blas = compile_library(
                real,
                "libcublas.so.13",
                "int cublasCreate(void) { return 0; }\n",
                script="libcublas.so.13 { global: cublasCreate; };\n",
            )
            nccl = compile_library(real, "libnccl.so.2", "int ncclInit(void) { return 0; }\n")
            kept = compile_library(real, "libcudart.so.13", "int cudaMalloc(void) { return 0; }\n")
            user = compile_library(
                torch,
                "libtorch_fake.so",
                "int cublasCreate(void); int ncclInit(void); int cudaMalloc(void);\n"
                "int use(void) { return cublasCreate() + ncclInit(); }\n"
                "int kept(void) { return cudaMalloc(); }\n",
                *map(str, (blas, nccl, kept)),
            )
            only_real = Path(scratch, "installed")
            only_real.mkdir()
            kept.rename(only_real / kept.name)
            subprocess.run(
                [sys.executable, MAKE, torch, stubs, "--real", only_real], check=True, capture_output=True
            )
            self.assertEqual({"libcublas.so.13", "libnccl.so.2"}, {path.name for path in stubs.glob("*.so*")})
            program = f"import ctypes; print(ctypes.CDLL({str(user)!r}, {ctypes.RTLD_GLOBAL}).use())"
            ended = subprocess.run(
                [sys.executable, "-c", program],
                env={"LD_LIBRARY_PATH": f"{stubs}:{only_real}", "LD_BIND_NOW": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(("68\n", ""), (ended.stdout, ended.stderr))

    def test_a_folder_without_libraries_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            ended = subprocess.run(
                [sys.executable, MAKE, scratch, scratch], capture_output=True, text=True, check=False
            )
            self.assertEqual(1, ended.returncode)
            self.assertIn("no shared libraries", ended.stderr)


if __name__ == "__main__":
    unittest.main()
