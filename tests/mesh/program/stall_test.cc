#include "mesh/program/stall.h"

#include <gtest/gtest.h>

namespace weft::mesh {
namespace {

/// Makes a device's program. The first device sends 'there' in each forward and receives 'back' in
/// each backward. The second device does the reverse.
Program one_of_two(bool first) {
  Program program;
  program.name = "train";
  program.device_name = first ? "front[0]" : "back[0]";
  program.transfers.resize(2);
  program.transfers[0].name = "there";
  program.transfers[1].name = "back";
  program.transfers[0].op = 0;
  program.transfers[1].op = 1;
  program.num_handles = 4;
  const std::uint32_t mine = first ? 0 : 1, theirs = first ? 1 : 0;
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t handle = i;
    program.instructions.push_back(BeginAction{first ? 0 : 1, ActionKind::kForward, i});
    program.instructions.push_back(Start{theirs, i, -1, -1, handle});
    program.instructions.push_back(Wait{handle});
    program.instructions.push_back(BeginAction{first ? 0 : 1, ActionKind::kBackward, i});
    program.instructions.push_back(Start{mine, i, -1, -1, handle + 2});
    program.instructions.push_back(Wait{handle + 2});
  }
  return program;
}

TEST(Stall, EachDeviceIsNamedWithItsActionsAndTheCycleOfWaits) {
  EXPECT_EQ(explain_stall({one_of_two(true), one_of_two(false)}, {2, 2}),
            "\n  front[0] is in stage 0, forward of microbatch 0 (next: backward of microbatch 0): "
            "waits for 'back' of microbatch 0, which back[0] has not started\n  back[0] is in "
            "stage 1, forward of microbatch 0 (next: backward of microbatch 0): waits for 'there' "
            "of microbatch 0, which front[0] has not started\n  deadlock: these devices wait for "
            "each other: front[0] -> back[0] -> front[0]");
}

TEST(Standing, IsKnownFromTheDevicesOwnProgram) {
  using Key = transfer::OperationKey;
  const Program program = one_of_two(true);
  const DevicePosition waits = find_device_position(program, 2, std::nullopt);
  EXPECT_EQ(waits.actions, "in stage 0, forward of microbatch 0 (next: backward of microbatch 0)");
  EXPECT_EQ(waits.transfer, "'back' of microbatch 0");
  EXPECT_EQ(waits.waits_for, (Key{1, 0}));
  EXPECT_EQ(waits.ahead, (std::vector<Key>{{0, 0}, {0, 1}, {1, 1}}));
  EXPECT_EQ(find_device_position(program, 1, std::nullopt).waits_for, std::nullopt);
  // Device collectives have their own position in the program, separate from the host's.
  EXPECT_EQ(find_device_position(program, 12, Key{0, 1}).waits_for, (Key{0, 1}));
  EXPECT_EQ(find_device_position(program, 12, std::nullopt).waits_for, std::nullopt);
}

TEST(Standing, ActionsThatRunInterleavedAreNamedTogether) {
  Program program;
  const auto begin = [&](ActionKind kind, int microbatch, bool resumes) {
    program.instructions.push_back(BeginAction{0, kind, microbatch, resumes});
  };
  begin(ActionKind::kForward, 0, false);
  begin(ActionKind::kForward, 2, false);
  begin(ActionKind::kBackward, 1, false);
  begin(ActionKind::kForward, 2, true);
  begin(ActionKind::kBackward, 1, true);
  begin(ActionKind::kForward, 3, false);
  begin(ActionKind::kVocabularyScores, 1, true);
  begin(ActionKind::kForward, 3, true);
  const auto actions_at = [&](std::size_t at) {
    return find_device_position(program, at, std::nullopt).actions;
  };
  EXPECT_EQ(actions_at(0),
            "in stage 0, forward of microbatch 0 (next: forward of microbatch 2 and backward of "
            "microbatch 1)");
  for (const std::size_t at : {1, 2, 3, 4})
    EXPECT_EQ(actions_at(at),
              "in stage 0, forward of microbatch 2 and backward of microbatch 1 (next: forward of "
              "microbatch 3)");
  EXPECT_EQ(actions_at(7), "in stage 0, forward of microbatch 3 (next: the end of the step)");
}

TEST(Stall, ADeviceThatWorksOrDoesNotAnswerIsWhereTheChainEnds) {
  EXPECT_EQ(explain_stall({one_of_two(true), one_of_two(false)}, {2, 0}),
            "\n  front[0] is in stage 0, forward of microbatch 0 (next: backward of microbatch 0): "
            "waits for 'back' of microbatch 0, which back[0] has not started\n  back[0] is in "
            "stage 1, forward of microbatch 0 (next: backward of microbatch 0): it runs, or is "
            "blocked inside an op\n  every other device waits for back[0]");
  EXPECT_EQ(explain_stall({one_of_two(true), one_of_two(false)}, {2, std::nullopt}),
            "\n  front[0] is in stage 0, forward of microbatch 0 (next: backward of microbatch 0): "
            "waits for 'back' of microbatch 0, which back[0] has not started\n  back[0] does not "
            "respond\n  every other device waits for back[0]");
}

TEST(Stall, ATransferThatAllHaveBegunIsOnItsWay) {
  EXPECT_EQ(explain_stall({one_of_two(true), one_of_two(false)}, {2, 5}),
            "\n  front[0] is in stage 0, forward of microbatch 0 (next: backward of microbatch 0): "
            "waits for 'back' of microbatch 0, which all its devices have started: its bytes are "
            "in flight, or the network has stalled\n  back[0] is in stage 1, backward of "
            "microbatch 0 (next: forward of microbatch 1): waits for 'back' of microbatch 0, which "
            "all its devices have started: its bytes are in flight, or the network has stalled");
}

TEST(Stall, TheHostGoesOnPastATransferThatTheDeviceStandsAt) {
  const transfer::OperationKey there{0, 0}, back{1, 0};
  EXPECT_EQ(explain_stall({one_of_two(true), one_of_two(false)}, {3, 1}, {back, std::nullopt}),
            "\n  front[0] is in stage 0, backward of microbatch 0 (next: forward of microbatch 1): "
            "waits for 'back' of microbatch 0, which back[0] has not started\n  back[0] is in "
            "stage 1, forward of microbatch 0 (next: backward of microbatch 0): it runs, or is "
            "blocked inside an op\n  every other device waits for back[0]");
  EXPECT_EQ(explain_stall({one_of_two(true), one_of_two(false)}, {12, 1}, {there, std::nullopt}),
            "\n  front[0] is in stage 0, backward of microbatch 1 (next: the end of the step): "
            "waits for 'there' of microbatch 0, which back[0] has not started\n  back[0] is in "
            "stage 1, forward of microbatch 0 (next: backward of microbatch 0): it runs, or is "
            "blocked inside an op\n  every other device waits for back[0]")
      << "at its end";
}

TEST(Stall, FinishedDevicesAreNotListed) {
  EXPECT_EQ(explain_stall({one_of_two(true), one_of_two(false)}, {12, 12}), "");
}

}  // namespace
}  // namespace weft::mesh
