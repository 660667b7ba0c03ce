#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/death/roster.h"

namespace weft::test {

/// Time in which a chaotic run must end. A longer cut is one for ever.
constexpr auto kRunEndsWithin = std::chrono::seconds(240);

enum class Way { kSignal, kStopBriefly, kStopLong, kCut };

/// One thing that is done to a run. Drawn before the run, so that a seed means the same blows.
struct Blow {
  std::chrono::milliseconds after{};  ///< Time since the blow before it.
  Roster::Role victim = Roster::Role::kDevice;
  Way way = Way::kSignal;
  int signal = SIGKILL;               ///< Of Way::kSignal.
  unsigned which = 0;                 ///< Index among the living of that role, or of a host.
  std::chrono::milliseconds lasts{};  ///< Of stops and cuts.
};

/// "device gets SIGTERM", "host cut off for 1000ms".
std::string describe(const Blow& blow);

/// When a process that has ended is started again by hand.
struct Operator {
  std::chrono::milliseconds after{};
  bool never = false;
};

/// What blows are drawn from.
struct BlowKinds {
  std::vector<int> signals = {SIGKILL};
  /// Empty: any role, and stops and cuts too. Otherwise signals to these roles alone.
  std::vector<Roster::Role> victims;
  /// One SIGKILL of an agent, while the meshes are being started.
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
  /// Returns one to eight blows. `cuts`: hosts have cables that can be pulled out.
  std::vector<Blow> blows(const BlowKinds& kinds, bool cuts);
  Operator next_operator() { return {ms(0, 1500), one_in(5)}; }

 private:
  std::mt19937_64 random_;
  std::mt19937_64 signals_;  ///< Apart, so that the choice of signals changes nothing else.
};

}  // namespace weft::test
