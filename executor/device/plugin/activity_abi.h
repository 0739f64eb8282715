/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "executor/device/plugin/abi.h"

/* The second C table of a device library, which need not have it: what its devices really ran, kernel by kernel.
 *
 * Thread contract: one PlanloomActivity per process; mark() by any thread, for its own commands; start(), stop(),
 * collect(), take() and counts() by one thread at a time, which need not be the one that opened it. */

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of this file. */
#define PLANLOOM_ACTIVITY_ABI 3U
/* The symbol of a library that has the table: PlanloomActivityLibrary. */
#define PLANLOOM_ACTIVITY_LIBRARY "planloomActivityTable"

typedef struct PlanloomActivity PlanloomActivity;

/* PLANLOOM_GRAPH: a graph of many commands that was started at once. */
enum { PLANLOOM_KERNEL = 0, PLANLOOM_COPY = 1, PLANLOOM_FILL = 2, PLANLOOM_GRAPH = 3 };

/* What is recorded: graphs as a whole alone, at little cost; or every command, those of graphs among them. */
enum { PLANLOOM_RECORD_GRAPHS = 1, PLANLOOM_RECORD_COMMANDS = 2 };

/* One command or graph that has ended. */
typedef struct PlanloomActivityRecord {
    int64_t start; /* nanoseconds of CLOCK_MONOTONIC */
    int64_t end;
    uint64_t mark;  /* that its command had: never 0; of a graph's command that of the graph's start, plus the one that
                       its thread had when it was captured */
    int64_t bytes;  /* copied or filled; 0 of kernels */
    int32_t kind;   /* PLANLOOM_KERNEL, ... */
    int32_t device; /* as in open() of the device table */
} PlanloomActivityRecord;

/* Since open(). */
typedef struct PlanloomActivityCounts {
    int64_t delivered;   /* records that take() has given */
    int64_t unmarked;    /* whose commands had no mark, or whose mark was lost */
    int64_t untimed;     /* without times, or that end before they start: left out */
    int64_t dropped;     /* by the vendor's library */
    int64_t refused;     /* requests for a buffer when all were in use: their records are among the dropped */
    int64_t overrun;     /* that take() was too slow for */
    int64_t uncertainty; /* of the clock, nanoseconds: half the time in which both clocks were last read */
} PlanloomActivityCounts;

/* Of a device, now; negative: not known. */
typedef struct PlanloomReadings {
    int32_t smClock; /* MHz */
    int32_t memoryClock;
    int32_t power;       /* W */
    int32_t temperature; /* degrees Celsius */
} PlanloomReadings;

typedef struct PlanloomActivityTable {
    uint32_t abi;   /* PLANLOOM_ACTIVITY_ABI */
    uint32_t bytes; /* of this struct */

    /* Before the first device is opened. All memory is allocated here. NULL after an error, which says why there will
     * be no records: training goes on without. */
    PlanloomActivity *(*open)(PlanloomError *why);
    /* After the last command of all devices, while they are open. */
    void (*close)(PlanloomActivity *activity);
    /* Commands from here on are recorded; what: PLANLOOM_RECORD_GRAPHS or PLANLOOM_RECORD_COMMANDS, instead of what was
     * recorded before. Negative after an error: then nothing is. */
    int32_t (*start)(PlanloomActivity *activity, int32_t what, PlanloomError *why);
    void (*stop)(PlanloomActivity *activity);
    /* Commands that the calling thread gives from here on belong to @p mark; 0: to nothing. */
    void (*mark)(PlanloomActivity *activity, uint64_t mark);
    /* Fetches what has ended. last: nothing is under way, what has no mark by now gets none. */
    void (*collect)(PlanloomActivity *activity, int32_t last);
    /* Up to @p most collected records, in no order; how many. */
    int64_t (*take)(PlanloomActivity *activity, PlanloomActivityRecord *records, int64_t most);
    void (*counts)(PlanloomActivity *activity, PlanloomActivityCounts *counts);
    /* Of the device with number @p device in the device table. May take a millisecond. By one thread at a time. */
    void (*readings)(PlanloomActivity *activity, int32_t device, PlanloomReadings *readings);
} PlanloomActivityTable;

typedef const PlanloomActivityTable *(*PlanloomActivityLibrary)(void);

#ifdef __cplusplus
}
#endif
