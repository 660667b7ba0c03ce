#pragma once

namespace weft::test {

/// Trains on a loaded cluster whose head is killed and restarted by hand, until the head has been
/// killed `kills` times. Prints the results. Returns the number of deviations from an undisturbed
/// run: each step once, every loss bit-identical, no device with two processes.
int kill_heads(int kills, int steps);

}  // namespace weft::test
