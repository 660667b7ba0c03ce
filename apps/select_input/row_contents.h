#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "apps/data/picture.h"
#include "apps/select_input/prepare_input.h"

namespace weft::apps {

/// Pictures of some rows of a prepared input, brought to `side` pixels of their longer side, or
/// less where whole pixels need it. Throws what reading them throws.
std::map<std::uint64_t, Picture> pictures_of_rows(const SelectInput& input,
                                                  const PreparedInput& prepared,
                                                  const std::set<std::uint64_t>& rows, int side);

/// Their texts. Throws what reading them throws; Error(kDataLoss) if a file has become shorter.
std::map<std::uint64_t, std::string> texts_of_rows(const SelectInput& input,
                                                   const PreparedInput& prepared,
                                                   const std::set<std::uint64_t>& rows);

}  // namespace weft::apps
