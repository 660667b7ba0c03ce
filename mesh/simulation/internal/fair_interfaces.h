#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace weft::mesh {

/// Transfers under way through network interfaces that carry one unit of work a second each way (InterfaceSharing::kFair). The
/// caller moves the time on. A value.
class FairInterfaces {
 public:
  explicit FairInterfaces(std::size_t interfaces) : out_(interfaces), in_(interfaces) {}

  /// A transfer comes now; it takes `seconds` when it is alone. `share`: of the places of interface `from`.
  void add(int transfer, std::size_t from, std::size_t to, double share, double seconds);
  /// When the first one is over if none comes before; nothing while there is none.
  std::optional<double> next_end();
  /// Lets the time pass; must not go beyond next_end().
  void advance(double time);
  /// Ends the one of next_end(). `moved_at`: when it first moved; `after`: whose end made room for it, or -1.
  struct Ended {
    int transfer = 0;
    double moved_at = 0;
    int after = -1;
  };
  Ended take_ended();

 private:
  struct Moving {
    int transfer = 0;
    std::size_t from = 0, to = 0;
    double share = 1;
    double left = 0;  ///< Seconds of being alone.
    double granted = 0;
    double rate = 0;
    std::optional<double> moved_at;
    int after = -1;
  };
  struct Side {
    double free = 0;    ///< Of its one unit of work a second.
    double wanted = 0;  ///< Sum of grants of those whose rate is open.
  };

  void share_out();

  std::vector<Moving> all_;  ///< In the order of coming.
  std::vector<Side> out_, in_;
  double now_ = 0;
  int last_ended_ = -1;
  bool changed_ = false;
};

}  // namespace weft::mesh
