/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The C table through which a device in a separate library is reached: a function pointer for each virtual member of
 * device.h, whose classes are opaque handles here. device.h says what each call does; numbers of enumerations are
 * those of the C++ ones, and ABI version and size of the table are compared before any other member is read. */

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of this file, and of an enumeration whose numbers cross. */
#define PLANLOOM_DEVICE_ABI 2U
/* The only symbol of a library: PlanloomDeviceLibrary. */
#define PLANLOOM_DEVICE_LIBRARY "planloomDeviceTable"

typedef struct PlanloomDevice PlanloomDevice;
typedef struct PlanloomQueue PlanloomQueue;
typedef struct PlanloomEvent PlanloomEvent;
typedef struct PlanloomKernel PlanloomKernel;
typedef struct PlanloomUpdates PlanloomUpdates;
typedef struct PlanloomGraph PlanloomGraph; /* device::CommandGraph */

/* What failed. code: 0, or 1 + ErrorCode. text: UTF-8, cut short where it is too long. */
typedef struct PlanloomError {
    int32_t code;
    char text[1020];
} PlanloomError;

/* device::Argument. dims: rank of them. */
typedef struct PlanloomArgument {
    int32_t type; /* graph::DType */
    int32_t present;
    int32_t layout; /* graph::Layout; Blocked is (N, H, W, C) on devices that the host cannot address */
    int32_t rank;
    const int64_t *dims;
} PlanloomArgument;

/* An attribute of an operator; kind: 0 an integer, 1 a number, 2 text, 3 integers, 4 numbers. */
typedef struct PlanloomAttribute {
    const char *name;
    int32_t kind;
    int64_t count; /* of integers or numbers; bytes of text */
    const int64_t *integers;
    const double *numbers;
    const char *text;
} PlanloomAttribute;

typedef struct PlanloomOperator {
    const char *type;
    const char *name;
    const PlanloomAttribute *attributes;
    int64_t attributeCount;
    const PlanloomArgument *inputs;
    int64_t inputCount;
    const PlanloomArgument *outputs;
    int64_t outputCount;
} PlanloomOperator;

/* update::Node and update::Store. */
typedef struct PlanloomNode {
    int32_t type; /* update::Operator */
    int32_t each;
    int32_t phase;
    int32_t index;
    int32_t arguments[3];
    double value;
} PlanloomNode;
typedef struct PlanloomStore {
    int32_t node;
    int32_t target;
} PlanloomStore;

/* update::Formula. */
typedef struct PlanloomFormula {
    const char *rule;
    const char *const *settingNames;
    const double *settingValues;
    int64_t settingCount;
    int32_t states;
    int32_t norms;
    const PlanloomNode *nodes;
    int64_t nodeCount;
    const PlanloomStore *stores;
    int64_t storeCount;
} PlanloomFormula;

/* device::UpdateRange, UpdateStep, Draw, ScoredRows and RowScores. */
typedef struct PlanloomUpdateRange {
    float *parameter;
    float *gradient;
    float *states[4];
    uint16_t *copy;
    int64_t count;
    float rateFactor;
    float decay;
    int32_t tensor;
    int32_t counts;
} PlanloomUpdateRange;
typedef struct PlanloomUpdateStep {
    double learningRate;
    int64_t step;
    double gradientScale;
    int64_t phase;
    double *squares;
    const double *allSquares;
} PlanloomUpdateStep;
typedef struct PlanloomDraw {
    int64_t seed;
    int64_t step;
    int64_t firstSample;
    int64_t samples;
    int64_t training;
} PlanloomDraw;
typedef struct PlanloomScoredRows {
    int64_t form; /* device::ScoredRows::Form */
    const void *values;
    const int64_t *labels;
    int64_t rows;
    int64_t width;
    int64_t ignored;
} PlanloomScoredRows;
typedef struct PlanloomRowScores {
    double crossEntropy;
    double right;
    double rows;
} PlanloomRowScores;

/* One device of the library. */
typedef struct PlanloomDescription {
    char name[256];
    int64_t memoryBytes;
} PlanloomDescription;

/* Functions that make something return NULL, and those that return int32_t a negative number, after an error. */
typedef struct PlanloomDeviceTable {
    uint32_t abi;   /* PLANLOOM_DEVICE_ABI */
    uint32_t bytes; /* of this struct */

    /* Devices of this machine. An error says why there is none: no driver, for instance. */
    int32_t (*devices)(PlanloomError *why);
    int32_t (*describe)(int32_t index, PlanloomDescription *what, PlanloomError *why);
    PlanloomDevice *(*open)(int32_t index, PlanloomError *why);
    void (*close)(PlanloomDevice *device);

    int32_t (*hostAddressable)(PlanloomDevice *device);
    void *(*transportAddress)(PlanloomDevice *device, void *address);
    void *(*allocate)(PlanloomDevice *device, int32_t space, int64_t bytes, PlanloomError *why);
    void (*release)(PlanloomDevice *device, int32_t space, void *data, int64_t bytes);

    PlanloomEvent *(*makeEvent)(PlanloomDevice *device, PlanloomError *why);
    void (*destroyEvent)(PlanloomEvent *event);
    int32_t (*poll)(PlanloomEvent *event, PlanloomError *why); /* 1: complete, 0: not yet */

    /* An error of code 1 + ErrorCode::Unsupported: the library has no kernel; the caller computes on the host. */
    PlanloomKernel *(*makeKernel)(PlanloomDevice *device, const PlanloomOperator *what, PlanloomError *why);
    uint32_t (*capabilities)(PlanloomKernel *kernel); /* device::DeviceKernel::Capability */
    void (*destroyKernel)(PlanloomKernel *kernel);
    /* Likewise for rules of update. */
    PlanloomUpdates *(*makeUpdates)(PlanloomDevice *device, const PlanloomFormula *formula,
                                    const PlanloomUpdateRange *ranges, int64_t count, PlanloomError *why);
    void (*destroyUpdates)(PlanloomUpdates *updates);

    PlanloomQueue *(*makeQueue)(PlanloomDevice *device, PlanloomError *why);
    void (*destroyQueue)(PlanloomQueue *queue);
    void (*begin)(PlanloomQueue *queue, PlanloomKernel *kernel, const PlanloomDraw *draw);
    void (*run)(PlanloomQueue *queue, PlanloomKernel *kernel, int32_t mode, const void *const *inputs,
                int64_t inputCount, void *const *outputs, int64_t outputCount);
    void (*accumulate)(PlanloomQueue *queue, const float *x, float *y, int64_t count);
    void (*copyToDevice)(PlanloomQueue *queue, void *device, const void *host, int64_t bytes);
    void (*copyToHost)(PlanloomQueue *queue, void *host, const void *device, int64_t bytes);
    void (*copy)(PlanloomQueue *queue, void *to, const void *from, int64_t bytes);
    void (*fill)(PlanloomQueue *queue, void *to, uint32_t pattern, int64_t bytes);
    void (*update)(PlanloomQueue *queue, PlanloomUpdates *updates, const PlanloomUpdateStep *how);
    void (*squaredNorm)(PlanloomQueue *queue, PlanloomUpdates *updates, double *host);
    /* NULL: the library cannot; the caller computes on the host. */
    void (*score)(PlanloomQueue *queue, const PlanloomScoredRows *rows, PlanloomRowScores *host);
    void (*record)(PlanloomQueue *queue, PlanloomEvent *event);
    void (*wait)(PlanloomQueue *queue, PlanloomEvent *event);
    /* function(data) on a thread of the host, in the queue's order. It calls nothing of this table. */
    void (*call)(PlanloomQueue *queue, void (*function)(void *), void *data);
    int32_t (*beginCapture)(PlanloomQueue *queue); /* 1, or 0: it captures nothing */
    PlanloomGraph *(*endCapture)(PlanloomQueue *queue, PlanloomError *why);
    void (*destroyGraph)(PlanloomGraph *graph);
    void (*replay)(PlanloomQueue *queue, PlanloomGraph *graph);
} PlanloomDeviceTable;

typedef const PlanloomDeviceTable *(*PlanloomDeviceLibrary)(void);

#ifdef __cplusplus
}
#endif
