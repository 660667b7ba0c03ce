#pragma once

namespace weft::test {

/// Stops one of three agents with SIGSTOP, `repeats` times. Times how long the head takes to call
/// its host suspect, and to count it as away. Returns how often the head did not.
int time_silence(int repeats);

/// Trains for `minutes` beside `loops` busy loops, without any death. Prints and returns the number
/// of reported deaths, plus 1 if the run ended.
int count_false_deaths(int minutes, int loops);

}  // namespace weft::test
