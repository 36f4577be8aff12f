/* Regions and points of a program for idlewave's recorder. C99 and C++11, nothing to link.
 *
 *   idlewave_begin("assemble");
 *   ...
 *   idlewave_end("assemble");
 *   idlewave_point("restart written");
 *
 * In C++ also `idlewave::region region("assemble");`, in C `IDLEWAVE_REGION("assemble");`: until the end of the block.
 *
 * The functions of the recorder are there only while `idlewave record` runs the program; otherwise each call is one
 * look at an address that is zero. Names are cut after 56 bytes; a thread may have 4,096 different ones. Regions of
 * one thread nest. Any thread may call; a signal handler may not.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef IDLEWAVE_H
#define IDLEWAVE_H

#if !defined(__GNUC__)
#error "idlewave.h needs weak symbols: GCC, Clang or a compiler that is compatible with them"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*idlewave_mark_function)(const char *name);

/* The address of a function that a preloaded library may define, else zero. Where the code of a program has a fixed
 * address, the linker would turn a plain look at an undefined weak symbol into zero for ever: the global offset table
 * is filled when the program starts. */
#if defined(__x86_64__) && defined(__LP64__)
#define IDLEWAVE_ADDRESS(function, symbol)                                                                             \
    __asm__(".weak " #symbol "\n\tmovq " #symbol "@GOTPCREL(%%rip), %0" : "=r"(function))
#elif defined(__aarch64__)
#define IDLEWAVE_ADDRESS(function, symbol)                                                                             \
    __asm__(".weak " #symbol "\n\tadrp %0, :got:" #symbol "\n\tldr %0, [%0, #:got_lo12:" #symbol "]" : "=r"(function))
#else
extern void idlewave_mark_begin(const char *name) __attribute__((weak));
extern void idlewave_mark_end(const char *name) __attribute__((weak));
extern void idlewave_mark_point(const char *name) __attribute__((weak));
#define IDLEWAVE_ADDRESS(function, symbol) ((function) = symbol)
#endif

/* A region is entered. */
static inline void idlewave_begin(const char *name)
{
    idlewave_mark_function mark;
    IDLEWAVE_ADDRESS(mark, idlewave_mark_begin);
    if (mark)
        mark(name);
}

/* The region that this thread entered last under this name is left. */
static inline void idlewave_end(const char *name)
{
    idlewave_mark_function mark;
    IDLEWAVE_ADDRESS(mark, idlewave_mark_end);
    if (mark)
        mark(name);
}

/* Something happened now. */
static inline void idlewave_point(const char *name)
{
    idlewave_mark_function mark;
    IDLEWAVE_ADDRESS(mark, idlewave_mark_point);
    if (mark)
        mark(name);
}

#ifdef __cplusplus
}

namespace idlewave
{

/* A region from here to the end of the block, however it is left. `name` must live as long. */
class region
{
  public:
    explicit region(const char *name) noexcept : name_(name) { idlewave_begin(name_); }
    ~region() { idlewave_end(name_); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

  private:
    const char *name_;
};

} // namespace idlewave

#else

static inline void idlewave_leave(const char **name)
{
    idlewave_end(*name);
}

#define IDLEWAVE_JOINED(a, b) a##b
#define IDLEWAVE_VARIABLE(line) IDLEWAVE_JOINED(idlewave_region_, line)
/* A region from here to the end of the block, however it is left but by longjmp or exit. */
#define IDLEWAVE_REGION(name)                                                                                          \
    const char *IDLEWAVE_VARIABLE(__LINE__) __attribute__((cleanup(idlewave_leave))) = (name);                         \
    idlewave_begin(IDLEWAVE_VARIABLE(__LINE__))

#endif
#endif
