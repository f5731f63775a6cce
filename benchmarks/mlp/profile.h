// Where the time of sinter's step goes: the ops that make up a step, run in the order of the step
// and timed one by one.
#pragma once

#include "tasks.h"

namespace bench {

/// Prints the time of each op, and what the whole step takes beyond their sum: the tape, memory,
/// the loop. `whole_us` is the step's time in a run of its own.
void print_profile(const Task& task, double whole_us);

}  // namespace bench
