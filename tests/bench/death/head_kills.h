#pragma once

namespace weft::test {

/// Trains on a cluster whose head is killed again and again, under load, and started again by hand,
/// until it has been killed so often; prints what became of the runs. Returns how many did not end
/// as an undisturbed one: each step once, every loss the same bits, no device with two processes.
int kill_heads(int kills, int steps);

}  // namespace weft::test
