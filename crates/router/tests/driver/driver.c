/* A GPU driver that is none, for tests: memory is the host's, and kernels run on threads, by their host twin.
 *
 * BEHAVIOUR says how it misbehaves: see tests/suite/cuda.rs. What a real driver does beyond that, and whether the kernels are right
 * on a device, this cannot tell. */
#include "../../kernels/twin.c"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SOUND, NO_DEVICE, OLD_VERSION, MISSING_SYMBOL, BAD_PTX, NO_MEMORY, SILENT_KERNEL, FAILING_KERNEL, OLD_GPU, HANGING_KERNEL,
       SILENT_BATCH };
#ifndef BEHAVIOUR
#define BEHAVIOUR SOUND
#endif

typedef int Status;
typedef void *Handle;

/* Work in a stream happens at once, but for the kernel that stays. */
typedef struct {
    int staying; /* threads of a persistent kernel */
    int left;
    int failed;
} Stream;

typedef struct {
    uint64_t address;
    const void *from;
    void *to;
    size_t bytes;
    int kind; /* 1 to the device, 2 to the host, 3 a batch, 4 what was gathered */
    Program program;
    Packets packets;
    Gathered gathered;
    uint32_t first, count, any;
} Step;

typedef struct {
    Step steps[16];
    int count;
} Graph;

/* What others give meanwhile, on their streams, is none of it: tests run beside each other, and each on a thread of its own. */
static _Thread_local Graph *capturing;
static int functions[6], context, module;
static const char *const names[6] = {"persistent", "batch", "persistent_any", "batch_any", "batch_gathered", "link"};
static size_t allocated;

Status cuInit(unsigned flags) {
    (void)flags;
    return BEHAVIOUR == NO_DEVICE ? 100 : 0;
}
Status cuDriverGetVersion(int *version) {
    *version = BEHAVIOUR == OLD_VERSION ? 11080 : 12000;
    return 0;
}
Status cuGetErrorName(Status status, const char **name) {
    switch (status) {
        case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
        case 100: *name = "CUDA_ERROR_NO_DEVICE"; return 0;
        case 222: *name = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; return 0;
        case 719: *name = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
        default: return 1;
    }
}
Status cuDeviceGetCount(int *count) { return *count = 1, 0; }
Status cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
Status cuDeviceGetName(char *name, int bytes, int device) {
    (void)device;
    snprintf(name, (size_t)bytes, "made GPU");
    return 0;
}
Status cuDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    switch (which) {
        case 13: *value = 1500000; break;
        case 16: *value = 1; break;
        case 17: case 18: *value = 0; break;
        case 38: *value = 1 << 20; break;
        case 40: *value = 2; break;
        case 75: *value = BEHAVIOUR == OLD_GPU ? 6 : 9; break;
        case 76: *value = 0; break;
        default: *value = 1;
    }
    return 0;
}
Status cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = (size_t)1 << 30, 0; }
Status cuDevicePrimaryCtxRetain(Handle *out, int device) { return (void)device, *out = &context, 0; }
Status cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
Status cuCtxSetCurrent(Handle it) { return it == &context ? 0 : 201; }
Status cuModuleLoadData(Handle *out, const void *image) {
    if (BEHAVIOUR == BAD_PTX) return 222;
    if (!strstr(image, ".version 8.0") || !strstr(image, ".entry persistent") || !strstr(image, ".entry batch")) return 218;
    return *out = &module, 0;
}
Status cuModuleUnload(Handle it) { return it == &module ? 0 : 400; }
Status cuModuleGetFunction(Handle *out, Handle it, const char *name) {
    if (it != &module) return 400;
    for (int i = 0; i < 6; i++)
        if (!strcmp(name, names[i])) return *out = &functions[i], 0;
    return 500;
}
/* As a driver of CUDA 12.0, which lacks it. */
#ifndef WITHOUT_LOADING
Status cuFuncLoad(Handle function) { return (void)function, 0; }
#endif
Status cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Handle function, int threads, size_t shared) {
    (void)function, (void)threads, (void)shared;
    return *blocks = 1, 0;
}
static void *take(size_t bytes) {
    void *at;
    return posix_memalign(&at, 4096, bytes ? bytes : 1) ? NULL : at;
}
Status cuMemHostAlloc(void **out, size_t bytes, unsigned flags) { return (void)flags, (*out = take(bytes)) ? 0 : 2; }
Status cuMemFreeHost(void *at) { return free(at), 0; }
Status cuMemHostGetDevicePointer_v2(uint64_t *out, void *at, unsigned flags) {
    return (void)flags, *out = (uint64_t)at, 0;
}
Status cuMemAlloc_v2(uint64_t *out, size_t bytes) {
    allocated += bytes;
    /* A table of 32 MiB does not fit. */
    if (BEHAVIOUR == NO_MEMORY && bytes > (16 << 20)) return 2;
    return (*out = (uint64_t)take(bytes)) ? 0 : 2;
}
Status cuMemFree_v2(uint64_t at) { return free((void *)at), 0; }
Status cuMemGetInfo_v2(size_t *available, size_t *total) {
    *total = 64 << 20;
    *available = allocated < *total ? *total - allocated : 0;
    return 0;
}
Status cuStreamCreate(Handle *out, unsigned flags) {
    /* A stream that waits for the default stream would wait for the kernel that stays. */
    if (flags != 1) return 1;
    return (*out = calloc(1, sizeof(Stream))) ? 0 : 2;
}
Status cuStreamDestroy_v2(Handle it) { return free(it), 0; }
Status cuStreamQuery(Handle it) {
    Stream *stream = it;
    if (__atomic_load_n(&stream->failed, __ATOMIC_ACQUIRE)) return 719;
    return __atomic_load_n(&stream->left, __ATOMIC_ACQUIRE) < stream->staying ? 600 : 0;
}
static void run(const Step *step) {
    if (step->kind == 1) memcpy((void *)step->address, step->from, step->bytes);
    if (step->kind == 2) memcpy(step->to, (void *)step->address, step->bytes);
    if (step->kind == 3) wirespeed_router_batch(&step->program, &step->packets, step->first, step->count, step->any, NULL);
    if (step->kind == 4) wirespeed_router_gathered(&step->program, &step->gathered);
}
static Status give(const Step *step) {
    if (!capturing) return run(step), 0;
    if (capturing->count == 16) return 1;
    capturing->steps[capturing->count++] = *step;
    return 0;
}
Status cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, Handle stream) {
    return (void)stream, memset((void *)at, value, bytes), 0;
}
Status cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, Handle stream) {
    Step step = {.kind = 1, .address = to, .from = from, .bytes = bytes};
    return (void)stream, give(&step);
}
Status cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, Handle stream) {
    Step step = {.kind = 2, .address = from, .to = to, .bytes = bytes};
    return (void)stream, give(&step);
}
typedef struct {
    Link link;
    Stream *stream;
} LinkStart;

static void *measured(void *argument) {
    LinkStart start = *(LinkStart *)argument;
    free(argument);
    wirespeed_router_link(&start.link);
    __atomic_add_fetch(&start.stream->left, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

static Status give_link(const Link *link, Stream *stream) {
    pthread_t thread;
    LinkStart *start = malloc(sizeof *start);
    start->link = *link, start->stream = stream;
    stream->staying = 1;
    if (BEHAVIOUR == SILENT_KERNEL) return free(start), 0;
    if (BEHAVIOUR == FAILING_KERNEL) return free(start), stream->failed = 1, 0;
    if (pthread_create(&thread, NULL, measured, start)) return 2;
    return pthread_detach(thread), 0;
}

Status cuLaunchKernel(Handle function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                      unsigned shared, Handle it, void **arguments, void **extra) {
    (void)by, (void)bz, (void)ty, (void)tz, (void)shared, (void)extra;
    if (function == &functions[5]) return bx * tx == 32 ? give_link(arguments[0], it) : 1;
    if (function == &functions[4]) {
        Step step = {.kind = 4, .program = *(Program *)arguments[0], .gathered = *(Gathered *)arguments[1]};
        return bx * tx < step.gathered.count_v4 + step.gathered.count_v6 ? 1 : give(&step);
    }
    if (function != &functions[1] && function != &functions[3]) return 400;
    Step step = {.kind = 3, .any = function == &functions[3], .program = *(Program *)arguments[0], .packets = *(Packets *)arguments[1],
                 .first = *(uint32_t *)arguments[2], .count = *(uint32_t *)arguments[3]};
    if (bx * tx < step.count) return 1;
    if (BEHAVIOUR == SILENT_BATCH) ((Stream *)it)->staying = 1;
    if (BEHAVIOUR == FAILING_KERNEL) ((Stream *)it)->failed = 1;
    return give(&step);
}

typedef struct {
    Router router;
    uint32_t warp, any;
    Stream *stream;
} Start;

static void *warp(void *argument) {
    Start start = *(Start *)argument;
    free(argument);
    wirespeed_router_warp(&start.router, start.warp, start.any, NULL);
    __atomic_add_fetch(&start.stream->left, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

Status cuLaunchCooperativeKernel(Handle function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                                 unsigned shared, Handle it, void **arguments) {
    (void)by, (void)bz, (void)ty, (void)tz, (void)shared;
    Router router = *(Router *)arguments[0];
    Stream *stream = it;
    if ((function != &functions[0] && function != &functions[2]) || bx * tx / 32 < router.warps) return 1;
    stream->staying = (int)router.warps;
    if (BEHAVIOUR == SILENT_KERNEL || BEHAVIOUR == HANGING_KERNEL) return 0;
    if (BEHAVIOUR == FAILING_KERNEL) return stream->failed = 1, 0;
    for (uint32_t i = 0; i < router.warps; i++) {
        pthread_t thread;
        Start *start = malloc(sizeof *start);
        start->router = router, start->warp = i, start->any = function == &functions[2], start->stream = stream;
        if (pthread_create(&thread, NULL, warp, start)) return 2;
        pthread_detach(thread);
    }
    return 0;
}
Status cuStreamBeginCapture_v2(Handle stream, unsigned mode) {
    (void)stream, (void)mode;
    return (capturing = calloc(1, sizeof(Graph))) ? 0 : 2;
}
Status cuStreamEndCapture(Handle stream, Handle *graph) {
    (void)stream;
    *graph = capturing;
    capturing = NULL;
    return 0;
}
Status cuGraphInstantiateWithFlags(Handle *exec, Handle graph, unsigned long long flags) {
    (void)flags;
    if (!(*exec = malloc(sizeof(Graph)))) return 2;
    return memcpy(*exec, graph, sizeof(Graph)), 0;
}
Status cuGraphLaunch(Handle exec, Handle stream) {
    Graph *graph = exec;
    (void)stream;
    for (int i = 0; i < graph->count; i++) run(&graph->steps[i]);
    return 0;
}
Status cuGraphDestroy(Handle graph) { return free(graph), 0; }
#ifndef WITHOUT_GRAPHS
Status cuGraphExecDestroy(Handle exec) { return free(exec), 0; }
#endif
