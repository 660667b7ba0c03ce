#pragma once

#include "mesh/search/search.h"

namespace weft::mesh {

/// No schedule of the same work on the same actors makes a faster step, whatever the memory. See
/// the proofs in bounds.cc.
double lower_bound(const SearchRequest& request);

/// The same for schedules that keep to the request's memory, and microbatches in order on every
/// stage. At least lower_bound().
double lower_bound_in_memory(const SearchRequest& request);

}  // namespace weft::mesh
