// Tests that only processes with a cluster's token can use it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "actors/access/token.h"
#include "actors/access/user_state.h"
#include "core/base/error.h"
#include "tests/support/real_processes.h"

namespace weft::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 ? about.st_mode & 07777 : 0;
}

/// Head with one host, started by this user.
struct SmallCluster {
  RealProcesses processes;
  RealProcesses::Process& head;
  std::string address;
  std::filesystem::path token;

  explicit SmallCluster(const std::string& name)
      : processes(name),
        head(processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"})),
        address(head.word_after("Weft's head listens on ")),
        token(processes.directory() / "state" / "token") {
    processes.start("weft", {"join", address, "--name", "a"}).word_after("has joined cluster");
  }
  std::string secret() const { return read_file(token).substr(0, 64); }
};

TEST(Token, LiesInAFileOfItsOwnerAndNowhereElse) {
  SmallCluster cluster("token_file");
  EXPECT_EQ(mode_of(cluster.token), 0600u);
  EXPECT_EQ(mode_of(cluster.token.parent_path()), 0700u);
  EXPECT_THAT(cluster.head.text(), HasSubstr("Its token is in " + cluster.token.string()));
  const std::string port = cluster.address.substr(cluster.address.find(':') + 1);
  EXPECT_EQ(std::filesystem::read_symlink(cluster.processes.directory() / "user_state/weft/tokens" /
                                          port),
            cluster.token);

  cluster.processes.write(
      "run.yaml",
      "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: a}]}\n"
      "work: {actors: 1, seconds: 60}\n");
  auto& run = cluster.processes.start("weft", {"run", "run.yaml", "--head", cluster.address});
  run.word_after("working");
  // The token is in no argument, no environment variable and no file but its own.
  const std::string secret = cluster.secret();
  ASSERT_EQ(secret.size(), 64u);
  const auto everybody = cluster.processes.left();
  EXPECT_GE(everybody.size(), 5u);
  for (const pid_t pid : everybody)
    for (const char* part : {"cmdline", "environ"})
      EXPECT_THAT(read_file(std::filesystem::path("/proc") / std::to_string(pid) / part),
                  Not(HasSubstr(secret)));
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(cluster.processes.directory()))
    if (entry.is_regular_file() && !entry.is_symlink() && entry.path() != cluster.token) {
      EXPECT_THAT(read_file(entry.path()), Not(HasSubstr(secret))) << entry.path();
    }
  EXPECT_EQ(cluster.processes.run("weft", {"stop", "--head", cluster.address}).wait(), 0);
  EXPECT_EQ(cluster.head.wait(), 0);
  EXPECT_FALSE(
      std::filesystem::is_symlink(cluster.processes.directory() / "user_state/weft/tokens" / port));
}

TEST(Token, IsKeptWhenTheHeadStartsAgain) {
  SmallCluster cluster("token_kept");
  const std::string secret = cluster.secret();
  EXPECT_EQ(cluster.processes.run("weft", {"stop", "--head", cluster.address}).wait(), 0);
  EXPECT_EQ(cluster.head.wait(), 0);
  cluster.processes.start("weft", {"head", "--listen", "127.0.0.1:0", "--state", "state"})
      .word_after("Weft's head listens on ");
  EXPECT_EQ(cluster.secret(), secret);
}

TEST(Token, AFileOfAnotherMachineIsGivenByName) {
  SmallCluster cluster("token_by_name");
  // simulates another machine
  std::filesystem::remove_all(cluster.processes.directory() / "user_state");
  const std::vector<std::string> status = {"status", "--head", cluster.address, "--token-file"};
  const auto with = [&](const std::string& file) -> RealProcesses::Process& {
    auto arguments = status;
    arguments.push_back(file);
    auto& process = cluster.processes.run("weft", arguments);
    process.wait();
    return process;
  };
  auto& without = cluster.processes.run("weft", {"status", "--head", cluster.address});
  EXPECT_EQ(without.wait(), 1);
  EXPECT_THAT(without.text(),
              HasSubstr("For a head of another user or machine: a cluster's token is in the file"));
  auto& good = with(cluster.token.string());
  EXPECT_EQ(good.wait(), 0) << good.text();

  EXPECT_THAT(with("nothing").text(), HasSubstr("there is no token file nothing"));
  std::filesystem::copy_file(cluster.token, cluster.processes.directory() / "open");
  std::filesystem::permissions(cluster.processes.directory() / "open",
                               std::filesystem::perms(0640));
  EXPECT_THAT(with("open").text(),
              AllOf(HasSubstr("the token file open is open to other users (mode 0640)"),
                    HasSubstr("chmod 600")));
  cluster.processes.write("text", "not a token\n");
  std::filesystem::permissions(cluster.processes.directory() / "text",
                               std::filesystem::perms(0600));
  EXPECT_THAT(
      with("text").text(),
      HasSubstr("the token file text does not hold a token: expected 64 hexadecimal digits"));
  cluster.processes.write("another", std::string(64, 'a') + "\n");
  std::filesystem::permissions(cluster.processes.directory() / "another",
                               std::filesystem::perms(0600));
  auto& wrong = with("another");
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_THAT(wrong.text(), AllOf(HasSubstr("head (weft, pid "),
                                  HasSubstr("the token is wrong: it is not that of "),
                                  HasSubstr("--token-file FILE")));
  EXPECT_THAT(cluster.head.word_after("refused a connection from "),
              HasSubstr("the token is wrong"));
}

TEST(Token, AStaleTokenLinkIsReportedAndReplacedByTheNextHeadOnItsPort) {
  RealProcesses processes("token_stale");
  processes.write(
      "run.yaml",
      "name: r\napp: cluster_app\ncluster: {hosts: [{name: a}]}\nwork: {actors: 1, seconds: 60}\n");
  auto& run = processes.start("weft", {"run", "run.yaml", "--out", "out"});
  std::string address = run.word_after(" at 127.0.0.1:");
  address = "127.0.0.1:" + address.substr(0, address.find(':'));
  run.word_after("working");
  ::kill(run.pid, SIGKILL);
  run.wait();
  ASSERT_TRUE(processes.none_left());
  const auto link =
      processes.directory() / "user_state/weft/tokens" / address.substr(address.find(':') + 1);
  EXPECT_EQ(std::filesystem::read_symlink(link), processes.directory() / "out/state/token")
      << "nobody could remove it";
  auto& nobody = processes.run("weft", {"status", "--head", address});
  EXPECT_EQ(nobody.wait(), 1);
  EXPECT_THAT(nobody.text(), HasSubstr("no head answers at " + address));

  auto& head = processes.start("weft", {"head", "--listen", address, "--state", "state"});
  EXPECT_EQ(head.word_after("Weft's head listens on "), address);
  EXPECT_EQ(processes.run("weft", {"status", "--head", address}).wait(), 0);
  EXPECT_EQ(std::filesystem::read_symlink(link), processes.directory() / "state/token");
}

/// Environment without HOME and XDG_STATE_HOME. The destructor restores both.
class WithoutHome : public ::testing::Test {
 protected:
  WithoutHome() : home_(keep("HOME")), state_home_(keep("XDG_STATE_HOME")) {}
  ~WithoutHome() override {
    ::setenv("HOME", home_.c_str(), 1);
    if (!state_home_.empty()) ::setenv("XDG_STATE_HOME", state_home_.c_str(), 1);
  }
  static std::string keep(const char* variable) {
    const char* value = std::getenv(variable);
    const std::string kept = value == nullptr ? "" : value;
    ::unsetenv(variable);
    return kept;
  }
  const std::string home_, state_home_;
};

TEST_F(WithoutHome, ThePlaceOfTokensIsAFolderOfTheUserAloneAndNeverTheWorkingDirectory) {
  const std::filesystem::path folder = fmt::format("/tmp/weft-{}", ::geteuid());
  if (std::filesystem::exists(folder) && !std::filesystem::is_empty(folder))
    GTEST_SKIP() << folder << " is in use";
  std::filesystem::remove(folder);
  EXPECT_EQ(actors::user_state_directory(), folder);
  EXPECT_EQ(mode_of(folder), 0700u);
  EXPECT_EQ(actors::user_state_directory(), folder) << "again";
  ::setenv("HOME", ".", 1);
  EXPECT_EQ(actors::user_state_directory(), folder) << "a path that is not absolute is none";

  const auto refusal = [] {
    try {
      return actors::user_state_directory().string();
    } catch (const Error& error) {
      return error.message();
    }
  };
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("neither HOME nor XDG_STATE_HOME is set"),
                               HasSubstr("mode 0755"), HasSubstr("Set HOME")));
  std::filesystem::remove(folder);
  std::filesystem::create_directory_symlink("/etc", folder);
  EXPECT_THAT(refusal(), HasSubstr("is not a folder of this user alone"));
  std::filesystem::remove(folder);
  if (::geteuid() == 0) {
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms(0700));
    ASSERT_EQ(::chown(folder.c_str(), 65534, 65534), 0);
    EXPECT_THAT(refusal(), HasSubstr("(owner 65534, mode 0700)"));
    std::filesystem::remove(folder);
  }
}

TEST(Token, AnotherUserOfTheMachineCanDoNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  SmallCluster cluster("token_nobody");
  cluster.processes.write("run.yaml",
                          "name: r\napp: cluster_app\ncluster: {launcher: manual, hosts: [{name: "
                          "a}]}\nwork: {actors: 1}\n");
  std::filesystem::permissions(cluster.processes.directory(), std::filesystem::perms(0777));
  cluster.processes.write("guess", std::string(64, '1') + "\n");
  std::filesystem::permissions(cluster.processes.directory() / "guess",
                               std::filesystem::perms(0600));
  ASSERT_EQ(::chown((cluster.processes.directory() / "guess").c_str(), 65534, 65534), 0);
  for (const bool guesses : {false, true}) {
    for (const std::vector<std::string>& what :
         {std::vector<std::string>{"status"}, {"run", "run.yaml", "--out", "nobodys"}, {"stop"}}) {
      std::vector<std::string> arguments = what;
      arguments.insert(arguments.end(), {"--head", cluster.address});
      if (guesses) arguments.insert(arguments.end(), {"--token-file", "guess"});
      auto& process = cluster.processes.start("weft", arguments, 65534);
      EXPECT_EQ(process.wait(), 1) << what[0];
      EXPECT_THAT(process.text(), HasSubstr(guesses ? "the token is wrong: it is not that of "
                                                    : "cannot read the token file"))
          << what[0];
    }
  }
  EXPECT_EQ(cluster.processes.run("weft", {"status", "--head", cluster.address}).wait(), 0)
      << "the cluster is as it was";
}

}  // namespace
}  // namespace weft::test
