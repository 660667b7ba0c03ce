#include "mesh/program/simulate_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/thrown_error.h"

namespace weft::mesh {
namespace {

using transfer::DeviceId;

/// Makes a device's program: one computation, then a transfer of each op, each awaited at once.
Program program(std::uint32_t device, const std::vector<std::uint32_t>& ops) {
  Program result;
  result.device = DeviceId(device);
  result.device_name = "device" + std::to_string(device);
  result.instructions.emplace_back(Run{});
  for (const std::uint32_t op : ops) {
    result.instructions.emplace_back(
        Start{static_cast<std::uint32_t>(result.transfers.size()), 0, 0, 0, result.num_handles});
    result.instructions.emplace_back(Wait{result.num_handles++});
    result.transfers.push_back({"op" + std::to_string(op), TransferPurpose::kReshard, op, {}});
  }
  return result;
}

/// Returns durations: `seconds` for each program's first instruction and 0 for all others.
InstructionSeconds times(const std::vector<Program>& programs, const std::vector<double>& seconds) {
  InstructionSeconds result;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    result.emplace_back(programs[i].instructions.size(), 0);
    result.back().front() = seconds[i];
  }
  return result;
}

/// Makes a movement between two devices over link 0.
Traffic::FlowMovement movement(std::uint32_t from, std::uint32_t to, double bytes) {
  Traffic::FlowMovement result;
  result.devices = {DeviceId(from), DeviceId(to)};
  result.bytes = bytes;
  result.crossings = {{0, 1}};
  return result;
}

TEST(SimulatePrograms, ATransferBeginsWhenAllHaveStartedItAndEndsForAll) {
  const std::vector<Program> programs{program(0, {7}), program(1, {7})};
  Traffic traffic{{{7, {movement(0, 1, 6)}}}, {2}, {}};
  traffic.movements[7].front().latency = 0.5;
  const ProgramSimulation simulation =
      simulate_programs(programs, times(programs, {1, 4}), traffic);
  EXPECT_EQ(simulation.end, (std::vector<double>{7.5, 7.5}));
  EXPECT_EQ(simulation.last_run, (std::vector<double>{1, 4}));
  EXPECT_DOUBLE_EQ(simulation.step, 7.5);
}

TEST(SimulatePrograms, TransfersShareALinkByWeight) {
  const std::vector<Program> programs{program(0, {1}), program(1, {1}), program(2, {2}),
                                      program(3, {2})};
  Traffic traffic{{{1, {movement(0, 1, 6)}}, {2, {movement(2, 3, 6)}}}, {1}, {}};
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0, 0}), traffic).end,
            (std::vector<double>{12, 12, 12, 12}));
  // The first transfer has twice the weight: it gets 4 and the second 2 of 6 until time 9.
  traffic.movements[2].front().weight = 0.5;
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0, 0}), traffic).end,
            (std::vector<double>{9, 9, 12, 12}));
  // A transfer that starts after the other has ended has the link alone.
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0, 8}), traffic).end,
            (std::vector<double>{6, 6, 14, 14}));
}

TEST(SimulatePrograms, RateThatASlowLinkLeavesUnusedGoesToOtherTransfers) {
  const std::vector<Program> programs{program(0, {1}), program(1, {1}), program(2, {2}),
                                      program(3, {2})};
  Traffic traffic{{{1, {movement(0, 1, 6)}}, {2, {movement(2, 3, 9)}}}, {4, 1}, {}};
  traffic.movements[1].front().crossings.push_back({1, 1});  // second link at 1 byte per second
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0, 0}), traffic).end,
            (std::vector<double>{6, 6, 3, 3}));
}

TEST(SimulatePrograms, AQueueServesTheOldestTransferThatCanMove) {
  // Device 0 sends to device 1, which is late, and then to device 2.
  const std::vector<Program> programs{[] {
                                        Program both = program(0, {1, 2});
                                        // start, start, wait, wait
                                        std::swap(both.instructions[2], both.instructions[3]);
                                        return both;
                                      }(),
                                      program(1, {1}), program(2, {2})};
  Traffic traffic{{{1, {movement(0, 1, 3)}}, {2, {movement(0, 2, 5)}}}, {1}, {1}};
  for (auto& [op, movements] : traffic.movements) movements.front().queue = {0, DeviceId(0)};
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0}), traffic).end,
            (std::vector<double>{8, 3, 8}));
  // When the receiver is ready, the earlier transfer goes first again.
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 2, 0}), traffic).end,
            (std::vector<double>{8, 5, 8}));
  traffic.queue_places = {2};
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0}), traffic).end,
            (std::vector<double>{8, 6, 8}));
  // A transfer may override the number of slots in the device's send queue.
  traffic.movements[2].front().queue->places = 1;
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0}), traffic).end,
            (std::vector<double>{8, 3, 8}));
  traffic.queue_places = {1};
  traffic.movements[2].front().queue->places = 2;
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0}), traffic).end,
            (std::vector<double>{8, 6, 8}));
}

TEST(SimulatePrograms, DevicesThatHaveNoFlowInCommonEndApart) {
  // A single transfer of four devices: 0 to 1 and 2 to 3.
  const std::vector<Program> programs{program(0, {1}), program(1, {1}), program(2, {1}),
                                      program(3, {1})};
  const Traffic traffic{{{1, {movement(0, 1, 6), movement(2, 3, 6)}}}, {1}, {}};
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 10, 0}), traffic).end,
            (std::vector<double>{6, 6, 16, 16}));
}

TEST(SimulatePrograms, SmallMessagesMoveBeforeTheirReceiverIsReady) {
  // Device 0 sends twice. Device 1 is late.
  const std::vector<Program> programs{program(0, {1, 2}), program(1, {1, 2})};
  Traffic traffic{{{1, {movement(0, 1, 6)}}, {2, {movement(0, 1, 6)}}}, {1}, {1}};
  for (auto& [op, movements] : traffic.movements) movements.front().queue = {0, DeviceId(0)};
  const InstructionSeconds seconds = times(programs, {0, 20});
  EXPECT_EQ(simulate_programs(programs, seconds, traffic).end, (std::vector<double>{32, 32}));
  for (auto& [op, movements] : traffic.movements) movements.front().eager_chunk = 6;
  EXPECT_EQ(simulate_programs(programs, seconds, traffic).end, (std::vector<double>{12, 20}));
  // The budget has room for one message only.
  traffic.eager_budget = 10;
  EXPECT_EQ(simulate_programs(programs, seconds, traffic).end, (std::vector<double>{26, 26}));
  traffic.eager_budget = 5;
  EXPECT_EQ(simulate_programs(programs, seconds, traffic).end, (std::vector<double>{32, 32}));
  // The budget has room for all of the first transfer and two of the second's three messages. The
  // third message stays at the sender.
  traffic.eager_budget = 11;
  for (auto& [op, movements] : traffic.movements) movements.front().eager_chunk = 2;
  EXPECT_EQ(simulate_programs(programs, seconds, traffic).end, (std::vector<double>{22, 22}));
}

TEST(SimulatePrograms, ALateReceiverInsideAHostDelaysItsForwarderButNotTheSender) {
  // Device 0 sends to device 1, which forwards to device 2.
  const std::vector<Program> programs{program(0, {1}), program(1, {1}), program(2, {1})};
  Traffic traffic{{{1, {movement(0, 1, 6)}}}, {1}, {1}};
  Traffic::FlowMovement& passed_on = traffic.movements[1].front();
  passed_on.queue = {0, DeviceId(0)};
  passed_on.behind = {{DeviceId(2), DeviceId(1)}};
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 20}), traffic).end,
            (std::vector<double>{6, 20, 20}));
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 20, 0}), traffic).end,
            (std::vector<double>{26, 26, 26}));
  passed_on.eager_chunk = 6;
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 20, 0}), traffic).end,
            (std::vector<double>{6, 20, 20}));
  EXPECT_EQ(simulate_programs(programs, times(programs, {0, 0, 0}), traffic).end,
            (std::vector<double>{6, 6, 6}));
}

TEST(SimulatePrograms, ProgramsThatWaitForEachOtherAreRefused) {
  const std::vector<Program> programs{program(0, {1, 2}), program(1, {2, 1})};
  const Traffic traffic{{{1, {movement(0, 1, 1)}}, {2, {movement(0, 1, 1)}}}, {1}, {}};
  const InstructionSeconds seconds = times(programs, {0, 0});
  EXPECT_THAT(
      [&] { simulate_programs(programs, seconds, traffic); },
      testing::ThrowsMessage<Error>(testing::HasSubstr("device0 waits for 'op1' of microbatch 0")));
  EXPECT_THAT([&] { simulate_programs(programs, {}, traffic); },
              test::throws_error(ErrorCode::kInvalidArgument,
                                 "expected durations of 2 programs, got those of 0"));
  EXPECT_THAT(
      [&] {
        simulate_programs(programs, {{}, {}}, traffic);
      },
      test::throws_error(ErrorCode::kInvalidArgument, "instructions, but times of 0"));
  EXPECT_THAT(
      [&] {
        simulate_programs(programs, seconds, {{}, {1}, {}});
      },
      test::throws_error(ErrorCode::kInvalidArgument, "no entry for transfer 'op1'"));
}

}  // namespace
}  // namespace weft::mesh
