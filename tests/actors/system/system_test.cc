#include "actors/system/system.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace weft::actors {
namespace {

using namespace std::chrono_literals;

SystemOptions named(const std::string& name) {
  SystemOptions options;
  options.name = name;
  return options;
}

struct Note {
  int number = 0;
  std::string text;
  static constexpr auto fields = weft::fields(&Note::number, &Note::text);
  friend bool operator==(const Note&, const Note&) = default;
};

/// An actor with a handler of every kind.
class Clerk final {
 public:
  using Arguments = std::tuple<std::string>;
  Clerk(Context& context, std::string greeting) : context_(context), greeting_(std::move(greeting)), gate_(context.make_wakeup()) {
    if (greeting_ == "refuse") throw Error(ErrorCode::kInvalidArgument, "no such greeting");
  }

  std::string greet(const std::string& name) const { return greeting_ + " " + name; }
  void write(Note note) { notes_.push_back(std::move(note)); }
  std::vector<Note> read() const { return notes_; }
  std::int64_t rank() const { return context_.place().rank; }
  void fail(std::string message) const { throw Error(ErrorCode::kNotFound, std::move(message)).at("shelf 3"); }
  task<int> wait_at_gate() {
    waiting_ = true;
    co_await gate_.wait();
    co_return 7;
  }
  void open_gate() { gate_.notify(); }
  bool is_waiting() const { return waiting_; }
  task<bool> nap(std::chrono::milliseconds time) {
    co_await context_.sleep(time);
    co_return true;
  }
  std::string caller() const { return context_.caller().name; }
  std::uint64_t measure(std::vector<std::byte> bytes) const { return bytes.size(); }
  std::vector<std::byte> produce(std::uint64_t size) const { return std::vector<std::byte>(size, std::byte{7}); }

  static constexpr auto endpoints =
      interface<"test.clerk", 1>(on<&Clerk::greet>("greet"), on<&Clerk::write>("write"), on<&Clerk::read>("read"), on<&Clerk::rank>("rank"), on<&Clerk::fail>("fail"),
                                 on<&Clerk::wait_at_gate>("wait_at_gate"), on<&Clerk::open_gate>("open_gate", urgent), on<&Clerk::is_waiting>("is_waiting", urgent),
                                 on<&Clerk::nap>("nap"), on<&Clerk::caller>("caller"), on<&Clerk::measure>("measure"), on<&Clerk::produce>("produce"));

 private:
  Context& context_;
  std::string greeting_;
  std::vector<Note> notes_;
  Wakeup gate_;
  bool waiting_ = false;
};

/// A driver and two workers, each a System of its own, over real sockets.
struct Cluster {
  System driver{named("driver")};
  System first{named("worker0")};
  System second{named("worker1")};
  ProcessRef first_ref, second_ref;

  Cluster() {
    first.provide<Clerk>();
    second.provide<Clerk>();
    first_ref = driver.connect(first.listen({"127.0.0.1", 0}));
    second_ref = driver.connect(second.listen({"127.0.0.1", 0}));
  }
};

template <typename Function>
Error error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

TEST(System, AHostedActorAnswersItsOwnProcess) {
  System system(named("alone"));
  const auto clerk = system.host<Clerk>("clerk", "hello");
  EXPECT_EQ(clerk.call<&Clerk::greet>("you").get(), "hello you");
  EXPECT_EQ(clerk.call<&Clerk::caller>().get(), "alone");
}

TEST(System, AnActorIsCalledByNameFromAnotherProcess) {
  Cluster cluster;
  (void)cluster.first.host<Clerk>("clerk", "good day");
  const auto clerk = cluster.driver.named<Clerk>(cluster.first_ref, "clerk");
  EXPECT_EQ(clerk.call<&Clerk::greet>("you").get(), "good day you");
  EXPECT_EQ(clerk.call<&Clerk::caller>().get(), "driver");
}

TEST(System, AMeshOfActorsIsCalledAsOneAndInSlices) {
  Cluster cluster;
  const auto mesh = cluster.driver.spawn_mesh<Clerk>("front", MeshShape{{"data", 2}, {"tensor", 2}},
                                                     {cluster.first_ref, cluster.first_ref, cluster.second_ref, cluster.second_ref}, "hi");
  EXPECT_EQ(mesh.call<&Clerk::rank>().get(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(mesh.slice({{"tensor", 1}}).call<&Clerk::rank>().get(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(mesh.slice({{"data", -1, 2}}).call<&Clerk::rank>().get(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(mesh.slice({{"data", 1}, {"tensor", 0}}).call_one<&Clerk::rank>().get(), 2);
  EXPECT_EQ(mesh.at({0, 1}).call<&Clerk::rank>().get(), 1);
  EXPECT_EQ(error_of([&] { (void)mesh.call_one<&Clerk::rank>(); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(mesh.scatter<&Clerk::greet>(std::vector<std::string>{"a", "b", "c", "d"}).get()[2], "hi c");
  mesh.call<&Clerk::write>(Note{1, "all"}).get();
  EXPECT_EQ(mesh.at({1, 1}).call<&Clerk::read>().get(), (std::vector<Note>{{1, "all"}}));
}

}  // namespace
}  // namespace weft::actors
