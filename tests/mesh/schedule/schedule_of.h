#pragma once

#include <string>

#include "mesh/schedule/schedule_text.h"

namespace weft::test {

/// Parses a schedule of one row per actor: "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n".
inline mesh::Schedule schedule_of(const std::string& rows) {
  return mesh::read_schedule(rows, "test").schedule;
}

}  // namespace weft::test
