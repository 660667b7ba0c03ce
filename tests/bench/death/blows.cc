#include "tests/bench/death/blows.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstring>

namespace weft::test {
namespace {
using Ms = std::chrono::milliseconds;
/// Time from the first device process to the last mesh, on a busy machine.
constexpr int kStartTakesMs = 300;
}  // namespace

std::string describe(const Blow& blow) {
  switch (blow.way) {
    case Way::kSignal:
      return fmt::format("{} gets SIG{}", name_of(blow.victim), ::sigabbrev_np(blow.signal));
    case Way::kStopBriefly: return fmt::format("{} stopped briefly", name_of(blow.victim));
    case Way::kStopLong: return fmt::format("{} stopped for long", name_of(blow.victim));
    case Way::kCut:
      return blow.lasts > kRunEndsWithin ? "host cut off for ever"
                                         : fmt::format("host cut off for {}", blow.lasts);
  }
  return "?";
}

std::vector<Blow> Draw::blows(const BlowKinds& kinds, bool cuts) {
  std::vector<Blow> blows;
  if (kinds.starting) {
    Blow blow;
    blow.after = ms(0, kStartTakesMs);
    blow.victim = Roster::Role::kAgent;
    blow.which = static_cast<unsigned>(upto(1000));
    return {blow};
  }
  const int count = 1 + upto(7);
  bool long_one = false;  // true once a blow takes more than ten seconds
  for (int i = 0; i < count; ++i) {
    Blow blow;
    // At once, during the previous blow's recovery, or in later steps.
    const int pace = upto(5);
    blow.after = i == 0 ? ms(0, 3000) : pace == 0 ? Ms(0) : pace < 3 ? ms(0, 400) : ms(0, 2500);
    blow.which = static_cast<unsigned>(upto(1000));
    const int who = upto(9);
    blow.victim = who < 5   ? Roster::Role::kDevice
                  : who < 7 ? Roster::Role::kAgent
                  : who < 9 ? Roster::Role::kHead
                            : Roster::Role::kDriver;
    blow.signal = kinds.signals[signals_() % kinds.signals.size()];
    if (!kinds.victims.empty()) {
      blow.victim = kinds.victims[signals_() % kinds.victims.size()];
      blows.push_back(blow);
      continue;
    }
    const int way = upto(9);
    if (cuts && way < 3) {
      blow.way = Way::kCut;
      const int lasts = upto(3);
      blow.lasts = lasts == 0   ? Ms(1000)
                   : lasts == 1 ? Ms(5000)
                   : lasts == 2 ? Ms(15'000)
                                : Ms(kRunEndsWithin * 2);
      if (long_one && lasts > 1) blow.lasts = Ms(1000);
      long_one = long_one || lasts > 1;
    } else if (way == 3) {
      blow.way = Way::kStopBriefly;
      blow.lasts = ms(100, 2500);
    } else if (way == 4 && !long_one) {
      blow.way = Way::kStopLong;
      blow.lasts = ms(11'000, 20'000);
      long_one = true;
    }
    blows.push_back(blow);
  }
  return blows;
}

}  // namespace weft::test
