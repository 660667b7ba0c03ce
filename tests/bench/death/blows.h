#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/death/roster.h"

namespace weft::test {

/// Time limit of a chaotic run. A longer cut is permanent.
constexpr auto kRunEndsWithin = std::chrono::seconds(240);

enum class Way { kSignal, kStopBriefly, kStopLong, kCut };

/// Fault that is injected into a run. Drawn before the run, so that a seed gives the same blows.
struct Blow {
  std::chrono::milliseconds after{};  ///< Time since the previous blow.
  Roster::Role victim = Roster::Role::kDevice;
  Way way = Way::kSignal;
  int signal = SIGKILL;               ///< Signal of Way::kSignal.
  unsigned which = 0;                 ///< Index among the role's live processes, or of the host.
  std::chrono::milliseconds lasts{};  ///< Duration of a stop or cut.
};

/// Returns a text such as "device gets SIGTERM" or "host cut off for 1000ms".
std::string describe(const Blow& blow);

/// Operator's delay before restarting an ended process by hand.
struct Operator {
  std::chrono::milliseconds after{};
  bool never = false;
};

/// Set of faults that blows are drawn from.
struct BlowKinds {
  std::vector<int> signals = {SIGKILL};
  /// Roles that get signals. Empty: any role, with stops and cuts too.
  std::vector<Roster::Role> victims;
  /// Only one SIGKILL of an agent, while the meshes are being started.
  bool starting = false;
};

/// Random choices of a chaotic run; equal for equal seeds.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed), signals_(seed) {}
  int upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool one_in(int n) { return upto(n - 1) == 0; }
  std::chrono::milliseconds ms(int least, int most) {
    return std::chrono::milliseconds(least + upto(most - least));
  }
  /// Returns one to eight blows. `cuts`: hosts can be disconnected.
  std::vector<Blow> blows(const BlowKinds& kinds, bool cuts);
  Operator next_operator() { return {ms(0, 1500), one_in(5)}; }

 private:
  std::mt19937_64 random_;
  std::mt19937_64 signals_;  ///< Separate, so that the choice of signals changes nothing else.
};

}  // namespace weft::test
