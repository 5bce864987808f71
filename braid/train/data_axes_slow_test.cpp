// Training with sharding and dp, the other half of the models.
#include <gtest/gtest.h>

#include "braid/train/data_axes_test_support.h"

namespace braid::train::axes {

// float32 or bfloat16, tied or not.
INSTANTIATE_TEST_SUITE_P(Models, DataAxes,
                         ::testing::Values(std::tuple(false, false), std::tuple(true, true)));

}  // namespace braid::train::axes
