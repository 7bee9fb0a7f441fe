/* An NVML of one card that is not there: `libnvidia-ml.so.1` for tests of the real binary.
 *
 * It answers what `src/device/nvml.rs` asks. The file that WARPSMITH_PRETENDED_NVML names changes its answers, a line
 * each, read anew at every call:
 *
 *     init CODE          nvmlInit fails with this code
 *     cards N            so many cards (0 or 1; otherwise 1)
 *     no-permission      the card may not be opened
 *     mig N              MIG is on, with N instances (0 or 1)
 *     process PID SM     a process with a context there, and its share of the last second in percent
 *     utilization P      of the card, in percent
 *     throttle BITS      reasons of the clock, in decimal
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

typedef struct { int is_instance; const char *uuid, *name; unsigned long long total, free; } Device;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } Process;
typedef struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } Share;
typedef struct { unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, slices, compute; unsigned long long mb; } Attributes;

static Device card = {0, "GPU-5e1f0000-0000-4000-8000-000000000001", "Pretended H200", 1ULL << 30, 1ULL << 29};
static Device instance = {1, "MIG-5e1f0000-0000-4000-8000-000000000002", "Pretended H200 MIG 1g.18gb", 1ULL << 28, 1ULL << 27};

/* Calls `visit` with what follows `key` on each of its lines; how many there are. */
static int each(const char *key, void (*visit)(const char *, int, void *), void *context) {
    const char *path = getenv("WARPSMITH_PRETENDED_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    size_t length = strlen(key);
    int count = 0;
    while (file && fgets(line, sizeof line, file)) {
        /* A NUL is in every text. */
        if (strncmp(line, key, length) == 0 && strchr(" \n", line[length])) {
            if (visit) visit(line + length, count, context);
            count++;
        }
    }
    if (file) fclose(file);
    return count;
}

static void keep_number(const char *rest, int at, void *context) {
    (void)at;
    *(long *)context = strtol(rest, NULL, 10);
}

static long number(const char *key, long otherwise) {
    each(key, keep_number, &otherwise);
    return otherwise;
}

static int has(const char *key) { return each(key, NULL, NULL) > 0; }

int nvmlInit_v2(void) { return (int)number("init", SUCCESS); }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) { (void)code; return "pretended"; }

int nvmlSystemGetDriverVersion(char *text, unsigned length) { return snprintf(text, length, "580.00.01") < 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)number("cards", 1); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    if ((long)index >= number("cards", 1)) return INVALID_ARGUMENT;
    *device = &card;
    return has("no-permission") ? NO_PERMISSION : SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    *device = strcmp(uuid, instance.uuid) == 0 ? &instance : &card;
    return strcmp(uuid, (*device)->uuid) == 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetUUID(Device *device, char *text, unsigned length) { return snprintf(text, length, "%s", device->uuid) < 0; }
int nvmlDeviceGetName(Device *device, char *text, unsigned length) { return snprintf(text, length, "%s", device->name) < 0; }

int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory *memory) {
    memory->total = device->total;
    memory->free = device->free;
    memory->used = device->total - device->free;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    *major = 9;
    *minor = 0;
    return device->is_instance ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device *device, Pci *pci) {
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:01:00.0");
    return device->is_instance ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetAttributes_v2(Device *device, Attributes *attributes) {
    attributes->multiprocessors = 16;
    return device->is_instance ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending) {
    (void)device;
    *current = *pending = (unsigned)has("mig");
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) { (void)device; *count = 7; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **found) {
    (void)device;
    *found = &instance;
    /* The numbers of instances have holes. */
    return index == 2 && number("mig", 0) > 0 ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *device, Device **parent) {
    *parent = &card;
    return device->is_instance ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *rates) {
    rates->gpu = (unsigned)number("utilization", 0);
    rates->memory = 0;
    return device->is_instance ? NOT_SUPPORTED : SUCCESS;
}

struct Listed { Process *processes; Share *shares; unsigned room; };

static void list(const char *rest, int at, void *context) {
    struct Listed *listed = context;
    char *after;
    unsigned pid = (unsigned)strtoul(rest, &after, 10), sm = (unsigned)strtoul(after, NULL, 10);
    if ((unsigned)at >= listed->room) return;
    if (listed->processes) listed->processes[at] = (Process){pid, 1 << 20, 0xFFFFFFFF, 0xFFFFFFFF};
    if (listed->shares) listed->shares[at] = (Share){pid, 0, sm, 0, 0, 0};
}

/* Fills what there is room for, and says of how many. */
static int listing(struct Listed listed, unsigned *count) {
    unsigned there = (unsigned)each("process", NULL, NULL);
    listed.room = listed.processes || listed.shares ? *count : 0;
    each("process", list, &listed);
    *count = there;
    return there > listed.room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, Process *processes) {
    (void)device;
    return listing((struct Listed){processes, NULL, 0}, count);
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(Device *device, unsigned *count, Process *processes) {
    (void)device;
    (void)processes;
    *count = 0;
    return SUCCESS;
}

int nvmlDeviceGetProcessUtilization(Device *device, Share *shares, unsigned *count, unsigned long long since) {
    (void)device;
    (void)since;
    if (!has("process")) return NOT_FOUND;
    return listing((struct Listed){NULL, shares, 0}, count);
}

int nvmlDeviceGetTemperature(Device *device, int sensor, unsigned *degrees) { (void)device; (void)sensor; *degrees = 40; return SUCCESS; }
int nvmlDeviceGetClockInfo(Device *device, int clock, unsigned *mhz) { (void)device; (void)clock; *mhz = 1980; return SUCCESS; }
int nvmlDeviceGetMaxClockInfo(Device *device, int clock, unsigned *mhz) { (void)device; (void)clock; *mhz = 1980; return SUCCESS; }

int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *reasons) {
    (void)device;
    *reasons = (unsigned long long)number("throttle", 0);
    return SUCCESS;
}
