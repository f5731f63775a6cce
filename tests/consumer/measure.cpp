// measure SECONDS MEGABYTES COMMAND...: runs a command and fails if it took more processor time or
// its largest process more memory.
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: measure SECONDS MEGABYTES COMMAND...\n");
    return 2;
  }
  const double most_seconds = std::atof(argv[1]);
  const double most_megabytes = std::atof(argv[2]);
  const pid_t child = fork();
  if (child == 0) {
    execvp(argv[3], argv + 3);
    std::perror(argv[3]);
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || waitpid(child, &status, 0) != child || getrusage(RUSAGE_CHILDREN, &used) != 0) {
    std::perror("measure");
    return 2;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "the command failed\n");
    return 1;
  }
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  const double took = seconds(used.ru_utime) + seconds(used.ru_stime);
  const double held = static_cast<double>(used.ru_maxrss) / 1024;
  std::printf("%.1f s of processor time (at most %g), %.0f MB of memory (at most %g)\n", took,
              most_seconds, held, most_megabytes);
  return took <= most_seconds && held <= most_megabytes ? 0 : 1;
}
