// The groups of pretrain_table, in the order of --help; defined in two files to keep each readable.
#pragma once

#include "braid/config/option_table.h"
#include "braid/config/options.h"

namespace braid::config {

void add_model_options(OptionTable<PretrainOptions>& table);
void add_data_options(OptionTable<PretrainOptions>& table);
void add_optimizer_options(OptionTable<PretrainOptions>& table);
void add_parallel_options(OptionTable<PretrainOptions>& table);
void add_run_options(OptionTable<PretrainOptions>& table);
void add_output_options(OptionTable<PretrainOptions>& table);

}  // namespace braid::config
