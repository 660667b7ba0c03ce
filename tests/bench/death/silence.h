#pragma once

namespace weft::test {

/// SIGSTOP of one of three agents that were started by hand, so often: until the head calls its
/// host suspect, and until it counts as away. Returns how often it did not.
int time_silence(int repeats);

/// Trains for so long on a cluster that was started by hand, beside so many busy loops, where
/// nobody dies. Returns how many were told dead, and prints it.
int count_false_deaths(int minutes, int loops);

}  // namespace weft::test
