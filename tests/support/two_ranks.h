#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

extern char** environ;

namespace weft::test {

/// Descriptor of the socket between the two processes of run_two_ranks(), in each process.
inline constexpr int kRankSocket = 3;

/// Starts this program again with these variables, to run its test `test`. The test is DISABLED_,
/// so that it does not run otherwise, and must end by itself (alarm()). Different values of
/// NCCL_HOSTID make the ranks two hosts to NCCL, so that they can share a GPU.
inline pid_t spawn_rank(std::uint32_t rank, const std::string& test,
                        std::vector<std::string> variables, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kRankSocket);
  variables.insert(variables.end(), {fmt::format("NCCL_HOSTID=weft-rank-{}", rank),
                                     "NCCL_SOCKET_IFNAME=lo", "NCCL_IB_DISABLE=1"});
  for (char** variable = environ; *variable != nullptr; ++variable)
    variables.emplace_back(*variable);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=" + test,
              disabled = "--gtest_also_run_disabled_tests";
  std::array<char*, 4> arguments = {program.data(), filter.data(), disabled.data(), nullptr};
  pid_t child = -1;
  EXPECT_EQ(
      posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environment.data()),
      0);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

/// Starts two ranks connected by a socket and expects both to pass. `rank_variable` has the rank.
inline void run_two_ranks(const std::string& test, const std::string& rank_variable,
                          const std::vector<std::string>& variables = {}) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  for (int& socket : sockets) {
    // Moves descriptors above kRankSocket, because dup2 to the same number would keep
    // close-on-exec.
    const int moved = ::fcntl(socket, F_DUPFD_CLOEXEC, 10);
    ::close(socket);
    socket = moved;
  }
  std::array<pid_t, 2> children{};
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    std::vector<std::string> own = variables;
    own.push_back(fmt::format("{}={}", rank_variable, rank));
    children[rank] = spawn_rank(rank, test, std::move(own), sockets[rank]);
  }
  for (const int socket : sockets) ::close(socket);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[rank], &status, 0), children[rank]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank " << rank << ": " << (WIFSIGNALED(status) ? "signal" : "exit");
  }
}

}  // namespace weft::test
