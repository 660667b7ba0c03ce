// Times MPI_Bcast of N MiB from rank 0, like tests/bench/peers/broadcast: mpi_broadcast MIB
// REPETITIONS
//
// Prints, per repetition, the seconds from the first rank's start to the last rank's end; the ranks
// share the machine's clock. Verifies the content. The first broadcast of the whole size is not
// timed, as in `weft bench reshard`.
#include <mpi.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) return 2;
  const int words = std::atoi(argv[1]) << 18, repetitions = std::atoi(argv[2]);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<std::uint32_t> data(static_cast<std::size_t>(words));
  MPI_Bcast(data.data(), words, MPI_UINT32_T, 0, MPI_COMM_WORLD);
  for (int repetition = 1; repetition <= repetitions; ++repetition) {
    for (int i = 0; i < words; ++i)
      data[static_cast<std::size_t>(i)] =
          rank == 0 ? static_cast<std::uint32_t>(i * 2654435761u + repetition) : 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = now();
    MPI_Bcast(data.data(), words, MPI_UINT32_T, 0, MPI_COMM_WORLD);
    const double end = now();
    for (int i = 0; i < words; ++i)
      if (data[static_cast<std::size_t>(i)] !=
          static_cast<std::uint32_t>(i * 2654435761u + repetition))
        MPI_Abort(MPI_COMM_WORLD, 1);
    double first = 0, last = 0;
    MPI_Reduce(&start, &first, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) std::printf("%.6f\n", last - first);
  }
  MPI_Finalize();
}
