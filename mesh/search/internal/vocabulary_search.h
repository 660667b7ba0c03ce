#pragma once

#include <span>

#include "mesh/search/search.h"

namespace weft::mesh {

/// search_schedule() where a vocabulary is split, with a budget. Passes are put into `named`, which
/// have none, and into what `search_plain` finds for the stages alone; then single actions of the
/// best are moved.
SearchResult search_with_vocabulary(const SearchRequest& request, std::span<const Schedule> named,
                                    SearchResult (*search_plain)(const SearchRequest& request));

}  // namespace weft::mesh
