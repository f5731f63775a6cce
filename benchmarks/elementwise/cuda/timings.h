// Times one activation on the slices of one size: its ops alone, and through the tape.
#pragma once

#include <vector>

#include "arena.h"
#include <sinter/kernels/math/activations.h>

namespace bench {

/// Forward and backward at each p, medians of `rounds`, in which a copy takes its turn.
std::vector<Result> time_ops(const Arena& arena, Arena::Slices slices,
                             const sinter::math::AnyActivation& act, const std::vector<double>& ps,
                             int rounds);

/// The same of dropout by itself, whose backward is its forward.
std::vector<Result> time_dropout(const Arena& arena, Arena::Slices slices,
                                 const std::vector<double>& ps, int rounds);

/// Forward, then backward on a tape, as a program calls them; medians of `rounds`. `copy_us` as
/// time_ops found it.
Result time_tape(const Arena& arena, const Arena::Slices& slices,
                 const sinter::math::AnyActivation& act, double p, int rounds, double copy_us);

}  // namespace bench
