// A schedule as a CSV file, in the format of PyTorch's pipelining.
#pragma once

#include <string>
#include <string_view>

#include "braid/schedule/schedule.h"

namespace braid::schedule {

/// One row per rank, one cell per compute action: stage, type (F, I, W, or B for a fused backward) and
/// microbatch, as in "2F0,3F0,3B0". Messages and their waits are omitted: PyTorch's "compute_only" format,
/// which its own passes complete as braid's do. Actions that end the step, which PyTorch does not have, are
/// cells of stage and type, as in "1UPDATE", or of the type alone, as in "NORM". Throws ConfigError if
/// `schedule` is not valid, has data axes or a W in hand.
std::string to_csv(const Schedule& schedule);

/// The schedule called `name` that to_csv, PyTorch or a person wrote. Ranks, chunks, microbatches and the
/// placement follow from the cells; each rank's stages are its chunks in ascending order. Empty cells (idle
/// slots), white space around cells and empty lines at the end do not matter; a compound cell, as in
/// "(5F3;2B1)OVERLAP_F_B", stands for its parts in order, as PyTorch runs it by default.
/// The result is valid but not proved: call check, with step_end set if its lists end the step. Its size and
/// that of everything made from it stay in proportion to the text's. Throws ConfigError if a cell is another
/// action (messages among them: braid places these itself), if a stage is missing, on two ranks, or on a rank
/// that has more or fewer stages than others, or if there are too few cells for so many stages and
/// microbatches. The message names the row and, with its text, the cell; both count from 1.
Schedule from_csv(std::string_view text, std::string name);

}  // namespace braid::schedule
