#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mesh/program_simulation/traffic.h"

namespace weft::mesh {

/// Movements under way. Who has a place gets its max-min fair share, by weights, of the links that it crosses. The caller moves
/// the time on. Borrows the traffic.
class SharedLinks {
 public:
  explicit SharedLinks(const Traffic& traffic) : traffic_(traffic) {}

  /// So many bytes of `movement` can move from now on; it must cross a link. `order`: lower ones get the places of a queue first.
  void add(std::size_t number, const Traffic::Movement& movement, std::uint64_t order, double bytes);
  /// When the first one is over if none comes before; nothing while there is none.
  std::optional<double> next_end();
  /// Lets the time pass; must not go beyond next_end().
  void advance(double time);
  /// Ends the one of next_end(), and gives its number.
  std::size_t take_ended();

 private:
  struct Moving {
    std::size_t number = 0;
    const Traffic::Movement* movement = nullptr;
    std::uint64_t order = 0;
    double left = 0;  ///< Bytes.
    double rate = 0;
  };

  void share_out();

  const Traffic& traffic_;
  std::vector<Moving> all_;  ///< By order.
  double now_ = 0;
  bool changed_ = false;
};

}  // namespace weft::mesh
