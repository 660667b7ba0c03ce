#pragma once

#include <vector>

namespace weft {

/// Of an even number of values the mean of the two in the middle; 0 of none.
double median(std::vector<double> values);

}  // namespace weft
