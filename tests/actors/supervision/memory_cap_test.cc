#include "actors/supervision/memory_cap.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "actors/supervision/child_cgroups.h"
#include "actors/supervision/fork_launcher.h"
#include "actors/supervision/proc_stat.h"
#include "core/base/error.h"
#include "tests/support/eventually.h"
#include "tests/support/scratch_folder.h"

namespace weft::actors {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr const char* kRole = "WEFT_TEST_CAPPED_CHILD";

/// Runs this program as the child: does what the variable kRole says, and exits before any test.
[[noreturn]] void be_the_child(const std::string& role) {
  set_out_of_memory_message(own_memory_cap(), "front[x=0]");
  const auto fill = [](std::uint64_t bytes) {
    std::vector<std::byte> held(bytes, std::byte{1});
    return static_cast<unsigned>(held[bytes / 2]);
  };
  if (role == "says") {
    rlimit data{}, stack{};
    ::getrlimit(RLIMIT_DATA, &data);
    ::getrlimit(RLIMIT_STACK, &stack);
    fmt::print("cap {}\ndata {}\nstack {}\narenas {}\n", own_memory_cap().describe(), data.rlim_cur,
               stack.rlim_cur, std::getenv("MALLOC_ARENA_MAX"));
  } else if (role == "catches") {
    try {
      fill(256 * kMiB);
      fmt::print("it had all that memory\n");
    } catch (...) {
      fmt::print("{}: {}\n", to_string(current_error().code()), current_error().message());
    }
  } else if (role == "terminates") {
    std::thread([&] { fill(256 * kMiB); }).join();
  } else if (role == "touches") {
    fill(256 * kMiB);
    fmt::print("it had all that memory\n");
  }
  std::fflush(stdout);
  std::_Exit(0);
}
[[maybe_unused]] const bool is_test = [] {
  if (const char* role = std::getenv(kRole)) be_the_child(role);
  return true;
}();

/// Returns true if this program's own memory fits below the cap. A sanitizer needs more.
bool fits() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;  // in pages
  in >> size >> resident >> shared >> text >> library >> data;
  return in && data * ::sysconf(_SC_PAGESIZE) < 32 * kMiB;
}
constexpr const char* kDoesNotFit = "this program alone needs more memory than the cap";

/// Runs the child to its end under a cap of 64 MiB. Looks for control groups below `root`.
ExitReport run_child(const std::string& role, const fs::path& root) {
  const test::ScratchFolder scratch;
  std::promise<ExitReport> reaped;
  auto future = reaped.get_future();
  ForkLauncher launcher(root);
  ProcessSpec spec{"test child",
                   {fs::read_symlink("/proc/self/exe").string()},
                   {fmt::format("{}={}", kRole, role)},
                   scratch.path() / "log"};
  spec.memory_cap = 64 * kMiB;
  launcher.launch(spec, {{}, [&](const ExitReport& evidence) { reaped.set_value(evidence); }});
  if (future.wait_for(test::kPatience) != std::future_status::ready)
    throw std::runtime_error("nothing within a minute");
  return future.get();
}

/// Machine without control groups.
class DataLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fits()) GTEST_SKIP() << "skipped: " << kDoesNotFit;
  }
  ExitReport run(const std::string& role) const { return run_child(role, scratch_.path()); }

 private:
  const test::ScratchFolder scratch_;
};

TEST_F(DataLimit, TheChildKnowsItAndHasSmallStacksAndOneArena) {
  const ExitReport evidence = run("says");
  EXPECT_TRUE(evidence.exited_cleanly());
  EXPECT_THAT(evidence.tail_lines,
              ::testing::ElementsAre("cap 64 MiB (RLIMIT_DATA)", "data 67108864", "stack 1048576",
                                     "arenas 1"));
  EXPECT_EQ(evidence.cap.bytes, 64 * kMiB);
  EXPECT_EQ(evidence.cap.kind, CapKind::kDataLimit);
  EXPECT_THAT(evidence.cap.fallback_reason, HasSubstr("no cgroup memory controller"));
}

TEST_F(DataLimit, AnAllocationBeyondItIsAnErrorThatNamesTheCap) {
  EXPECT_THAT(run("catches").tail_lines,
              ::testing::ElementsAre(
                  "resource exhausted: out of memory: front[x=0] reached its cap of 64 MiB "
                  "(cluster.memory, RLIMIT_DATA); raise cluster.memory, or reduce the "
                  "memory that it needs"));
}

TEST_F(DataLimit, TheEndOfAProcessThatDoesNotCatchItNamesTheCap) {
  const ExitReport evidence = run("terminates");
  EXPECT_EQ(evidence.signal, SIGABRT);
  EXPECT_THAT(evidence.summary(), HasSubstr("died: SIGABRT: out of memory, at its cap of 64 MiB "
                                            "(cluster.memory, RLIMIT_DATA)"));
  EXPECT_THAT(evidence.log_note(), HasSubstr("front[x=0] reached its cap of 64 MiB"));
}

/// Returns why this process cannot use control groups; empty if it can. With cgroup v2, the process
/// moves to a leaf of its group.
std::string no_groups_here() {
  if (!fits()) return kDoesNotFit;
  try {
    ChildCgroups().make(64 * kMiB);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

std::vector<std::string> groups_left() {
  std::vector<std::string> found;
  const auto own = own_memory_group();
  for (const auto& entry : fs::directory_iterator(own->folder))
    if (const std::string name = entry.path().filename(); name.ends_with(".1"))
      found.push_back(name);
  return found;
}

TEST(ControlGroup, KillsAProcessAtItsCapAndTheEvidenceNamesTheCap) {
  if (const std::string problem = no_groups_here(); !problem.empty())
    GTEST_SKIP() << "skipped: no control groups here: " << problem;
  const ExitReport evidence = run_child("touches", "/");
  EXPECT_EQ(evidence.signal, SIGKILL);
  EXPECT_TRUE(evidence.reached_memory_cap);
  EXPECT_THAT(evidence.summary(),
              HasSubstr(fmt::format("died: SIGKILL by the kernel: out of memory, at its cap of 64 "
                                    "MiB (cluster.memory, {})",
                                    to_string(evidence.cap.kind))));
  EXPECT_THAT(groups_left(), Each(Not(HasSubstr(fmt::format(".{}.", ::getpid())))));
}

TEST(ControlGroup, TheChildKnowsItAndKeepsItsStacks) {
  if (const std::string problem = no_groups_here(); !problem.empty())
    GTEST_SKIP() << "skipped: no control groups here: " << problem;
  const ExitReport evidence = run_child("says", "/");
  EXPECT_TRUE(evidence.exited_cleanly());
  rlimit stack{};
  ::getrlimit(RLIMIT_STACK, &stack);
  EXPECT_THAT(evidence.tail_lines,
              ::testing::IsSupersetOf({fmt::format("cap {}", evidence.cap.describe()),
                                       fmt::format("stack {}", stack.rlim_cur)}));
}

/// Folders that stand in for the kernel's control groups.
class GroupFolders : public ::testing::Test {
 protected:
  GroupFolders() { fs::create_directories(root_ / "proc/self/ns"); }
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::string read(const fs::path& path) const {
    std::string text;
    std::getline(std::ifstream(path), text);
    return text;
  }
  void second_version() const {
    write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("proc/self/cgroup", "0::/weft.service\n");
    write(own_ / "cgroup.controllers", "cpu memory pids\n");
    write(own_ / "cgroup.type", "domain\n");
    write(own_ / "cgroup.subtree_control", "");
    write(own_ / "cgroup.procs", fmt::format("{}\n", ::getpid()));
  }
  std::string problem() const {
    try {
      ChildCgroups groups(root_);
      return "none";
    } catch (const Error& error) {
      return error.message();
    }
  }
  const test::ScratchFolder scratch_;
  const fs::path root_ = scratch_.path();
  const fs::path own_ = "sys/fs/cgroup/weft.service";
};

TEST_F(GroupFolders, OfTheSecondVersionBeginWithALeafForThisProcess) {
  second_version();
  ChildCgroups groups(root_);
  EXPECT_EQ(groups.kind(), CapKind::kControlGroupV2);
  EXPECT_EQ(read(root_ / own_ / "cgroup.subtree_control"), "+memory");
  std::vector<std::string> leaves;
  for (const auto& entry : fs::directory_iterator(root_ / own_))
    if (entry.is_directory()) leaves.push_back(entry.path().filename());
  ASSERT_EQ(leaves.size(), 1u);
  EXPECT_THAT(leaves[0], AllOf(::testing::StartsWith("weft."), ::testing::EndsWith(".self")));
  EXPECT_EQ(read(root_ / own_ / leaves[0] / "cgroup.procs"), std::to_string(::getpid()));

  const ChildCgroup group = groups.make(64 * kMiB);
  const fs::path folder = group.procs_file().parent_path();
  EXPECT_EQ(folder.parent_path(), root_ / own_);
  EXPECT_EQ(read(folder / "memory.max"), "67108864");
  EXPECT_EQ(read(folder / "memory.swap.max"), "0");
  EXPECT_EQ(read(folder / "memory.oom.group"), "1");
  EXPECT_FALSE(group.reached_its_cap());
  std::ofstream(folder / "memory.events") << "low 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 1\n";
  std::ofstream(folder / "memory.events.local") << "oom 1\noom_kill 2\n";
  EXPECT_TRUE(group.reached_its_cap());
  EXPECT_EQ(group.oom_kills(), 2u);
}

TEST_F(GroupFolders, OfAChildThatMakesGroupsItselfHasNoCapAndGoesWithThem) {
  second_version();
  ChildCgroups groups(root_);
  ChildCgroup group = groups.make(0);
  const fs::path folder = group.procs_file().parent_path();
  EXPECT_TRUE(fs::is_empty(folder));
  // The child's own leaf, and the group of its child; each has counted OOM kills.
  fs::create_directories(folder / "weft.1.2.3.self");
  fs::create_directories(folder / "weft.1.2.3.1");
  std::ofstream(folder / "memory.events.local") << "oom_kill 1\n";
  std::ofstream(folder / "weft.1.2.3.self/memory.events.local") << "oom_kill 2\n";
  std::ofstream(folder / "weft.1.2.3.1/memory.events.local") << "oom_kill 4\n";
  EXPECT_EQ(group.oom_kills(), 3u);
  EXPECT_FALSE(group.remove()) << "these files are the test's";
  for (const char* file : {"", "weft.1.2.3.self", "weft.1.2.3.1"})
    fs::remove(folder / file / "memory.events.local");
  EXPECT_TRUE(group.remove());
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(GroupFolders, OfTheSecondVersionHaveTheDescendantsOfThisProcessInItsLeaf) {
  second_version();
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  write(own_ / "cgroup.procs", fmt::format("{}\n{}\n", ::getpid(), child));
  EXPECT_EQ(problem(), "none");
  EXPECT_EQ(read(root_ / own_ / "cgroup.subtree_control"), "+memory");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(GroupFolders, OfTheSecondVersionAreNotMadeWhereOthersAreInTheGroup) {
  second_version();
  write(own_ / "cgroup.procs", fmt::format("1\n{}\n", ::getpid()));
  EXPECT_THAT(problem(), AllOf(HasSubstr("1 other process is in the control group"),
                               HasSubstr("Delegate=yes")));
  EXPECT_EQ(read(root_ / own_ / "cgroup.subtree_control"), "");
}

TEST_F(GroupFolders, AreNotMadeWithoutTheControllerNorAtTheTopNorInTheGroupOfOthers) {
  second_version();
  write(own_ / "cgroup.controllers", "cpu pids\n");
  EXPECT_THAT(problem(), HasSubstr("has no memory controller"));
  second_version();
  fs::remove(root_ / own_ / "cgroup.type");
  EXPECT_THAT(problem(), HasSubstr("is the root group"));
  second_version();
  write(own_ / "cgroup.procs", "1\n");
  EXPECT_THAT(problem(), HasSubstr("control group is not the one at"));
}

TEST_F(GroupFolders, OfTheFirstVersionCountSwapAndWhatTheDeadHaveLeftIsRemoved) {
  write("proc/self/mountinfo",
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "4:memory:/a\n0::/\n");
  fs::create_symlink("pid:[4026531836]", root_ / "proc/self/ns/pid");
  const fs::path own = root_ / "sys/fs/cgroup/memory/a";
  write("sys/fs/cgroup/memory/a/cgroup.procs", fmt::format("{}\n", ::getpid()));
  write("sys/fs/cgroup/memory/a/memory.use_hierarchy", "1\n");
  const auto begun = [](pid_t pid) { return read_proc_stat(pid)->start_ticks; };
  const std::string here = "weft.4026531836.";
  const std::vector<std::string> kept = {
      "other", "weft", fmt::format("{}{}.{}.1", here, ::getppid(), begun(::getppid())),
      "weft.77.4194304000.5.1"};  // from another pid namespace
  const std::vector<std::string> left = {here + "4194304000.5.1", here + "4194304000.5.self",
                                         fmt::format("{}{}.1.1", here, ::getppid())};
  for (const auto& names : {kept, left})
    for (const std::string& name : names) fs::create_directories(own / name);
  write(own / (here + "4194304000.5.2") / "cgroup.procs", "9\n");  // not empty
  fs::create_directories(own / left[0] / (here + "4194304001.5.self"));

  ChildCgroups groups(root_);
  for (const std::string& name : kept) EXPECT_TRUE(fs::exists(own / name)) << name;
  for (const std::string& name : left) EXPECT_FALSE(fs::exists(own / name)) << name;
  EXPECT_TRUE(fs::exists(own / (here + "4194304000.5.2")));
  fs::remove(own / (here + "4194304000.5.2") / "cgroup.procs");

  EXPECT_EQ(groups.kind(), CapKind::kControlGroupV1);
  const ChildCgroup group = groups.make(64 * kMiB);
  EXPECT_FALSE(fs::exists(own / (here + "4194304000.5.2"))) << "its process has ended meanwhile";
  const fs::path folder = group.procs_file().parent_path();
  EXPECT_EQ(folder.filename().string(),
            fmt::format("{}{}.{}.1", here, ::getpid(), begun(::getpid())));
  EXPECT_EQ(read(folder / "memory.limit_in_bytes"), "67108864");
  EXPECT_EQ(read(folder / "memory.memsw.limit_in_bytes"), "67108864");
  std::ofstream(folder / "memory.max_usage_in_bytes") << 60 * kMiB;
  EXPECT_FALSE(group.reached_its_cap());
  std::ofstream(folder / "memory.max_usage_in_bytes") << 64 * kMiB - 4096;
  EXPECT_TRUE(group.reached_its_cap());
  std::ofstream(folder / "memory.oom_control") << "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
  EXPECT_EQ(group.oom_kills(), 3u);

  write("sys/fs/cgroup/memory/a/memory.use_hierarchy", "0\n");
  EXPECT_THAT(problem(), HasSubstr("memory.use_hierarchy is 0"));
}

TEST(MemoryCap, TravelsInTheEnvironment) {
  for (const MemoryCap& cap :
       {MemoryCap{64 * kMiB, CapKind::kControlGroupV1, ""},
        MemoryCap{kMiB, CapKind::kDataLimit, "2 other processes are in the control group /a"}}) {
    const std::string entry = to_environment(cap);
    const auto equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    EXPECT_EQ(own_memory_cap(), cap);
  }
  ::setenv("WEFT_MEMORY_CAP", "many", 1);
  EXPECT_EQ(own_memory_cap(), MemoryCap());
  ::unsetenv("WEFT_MEMORY_CAP");
  EXPECT_EQ(own_memory_cap(), MemoryCap());
}

}  // namespace
}  // namespace weft::actors
