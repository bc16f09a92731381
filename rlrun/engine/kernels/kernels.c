/* Kernels of traced updates: a table of steps over shared buffers, run once or for many minibatches.

   Compiled once per machine. Each step is an elementwise loop, a reduction, a product or a copy by index, with the
   semantics of the NumPy call of the same name. Sums consist of LANES partial sums, so that results do not depend on
   how the compiler translates a loop. Sums of more than LONG numbers are split into halves that are summed separately,
   so that the error grows with the logarithm of the length. */
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct Step {
    void *kernel;
    int64_t group;        /* steps from this one on that run block by block; 0: the kernel takes the step as a whole */
    int64_t is_flat;      /* whether rows follow each other without gaps, in every operand */
    char *at[3];          /* output, first and second operand */
    int64_t shape[4];     /* elementwise: outer, outer, rows, columns; see each kernel for the others */
    int64_t stride[3][4]; /* bytes */
} Step;

typedef struct {
    const char *from;
    char *to;
    int64_t bytes; /* size of a row; if the kind is WHOLE, of the column of a minibatch */
    int64_t kind;
} Column;

/* What a column's rows contain: rows of these states; gamma, but 0 where `from` is terminal; 1; or all rows of one
   minibatch after those of another. */
enum { AT_STEP, AT_BOOTSTRAP, DISCOUNT, ONE, WHOLE };

typedef void (*Loop)(char *, const char *, const char *, int64_t, int64_t, int64_t, int64_t);
typedef void (*Whole)(const Step *);
typedef void (*Gemm)(int, int, int, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                     float, float *, int64_t);
typedef void (*Gemm32)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);

enum { LANES = 16, BLOCK = 2048, LONG = 1024, WIDE = 64, ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

/* --- Functions of one number */

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define HAS_FMA 1
#define FMA(a, b, c) __builtin_fmaf(a, b, c) /* rounded once if the processor has an instruction for it */
#else
#define HAS_FMA 0
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

#define INLINE static inline __attribute__((always_inline)) /* a call would keep the loop around it from vectorizing */
#define ROUNDER 12582912.0f /* 1.5 * 2^23: a small number added to it is rounded to an integer, in its lowest bits */

/* exp(x) - 1 for |x| <= ln(2) / 2, x being `high` - n ln(2) in two parts. */
INLINE float reduced_expm1_f32(float high, float n) {
    float r = FMA(n, 2.12194440e-4f, FMA(n, -0.693359375f, high)), p = 1.9875691500e-4f;
    p = FMA(p, r, 1.3981999507e-3f);
    p = FMA(p, r, 8.3334519073e-3f);
    p = FMA(p, r, 4.1665795894e-2f);
    p = FMA(p, r, 1.6666665459e-1f);
    p = FMA(p, r, 5.0000001201e-1f);
    return FMA(p * r, r, r);
}

INLINE float exp_f32(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    union { float f; uint32_t u; } rounded = {FMA(x, 1.44269504088896341f, ROUNDER)}, first, second;
    uint32_t n = rounded.u - 0x4b400000u; /* the bits above those of ROUNDER; NaN stays NaN whatever they are */
    uint32_t half = (uint32_t)((int32_t)n >> 1); /* 2^n as two factors, for subnormal and infinite results */
    first.u = (half + 127u) << 23, second.u = (n - half + 127u) << 23;
    return (reduced_expm1_f32(x, rounded.f - ROUNDER) + 1.0f) * first.f * second.f;
}

INLINE float log_f32(float x) {
    int tiny = x < 1.17549435e-38f;
    union { float f; uint32_t u; } bits = {tiny ? x * 8388608.0f : x};
    uint32_t shifted = bits.u - 0x3f3504f3u; /* the mantissa will be between sqrt(1/2) and sqrt(2) */
    float e = (float)((int32_t)shifted >> 23) - (tiny ? 23.0f : 0.0f);
    bits.u = (shifted & 0x007fffffu) + 0x3f3504f3u;
    float m = bits.f - 1.0f, z = m * m, y = 7.0376836292e-2f;
    y = FMA(y, m, -1.1514610310e-1f);
    y = FMA(y, m, 1.1676998740e-1f);
    y = FMA(y, m, -1.2420140846e-1f);
    y = FMA(y, m, 1.4249322787e-1f);
    y = FMA(y, m, -1.6668057665e-1f);
    y = FMA(y, m, 2.0000714765e-1f);
    y = FMA(y, m, -2.4999993993e-1f);
    y = FMA(y, m, 3.3333331174e-1f);
    y = FMA(-0.5f, z, FMA(e, -2.12194440e-4f, y * m * z));
    y = FMA(e, 0.693359375f, m + y);
    y = x == INFINITY ? x : y;
    y = x == 0.0f ? -INFINITY : y;
    return x < 0.0f || x != x ? NAN : y;
}

/* exp(x) - 1 where 2^n of exp(x) = 2^n exp(r) is a normal number. */
INLINE float moderate_expm1_f32(float x) {
    union { float f; uint32_t u; } rounded = {FMA(x, 1.44269504088896341f, ROUNDER)}, power;
    power.u = (rounded.u << 23) + 0x3f800000u;
    return FMA(power.f, reduced_expm1_f32(x, rounded.f - ROUNDER), power.f - 1.0f);
}

/* With e = exp(2 |x|) - 1: e / (e + 2). */
INLINE float tanh_f32(float x) {
    float w = __builtin_fabsf(x);
    float e = moderate_expm1_f32(2.0f * (w > 9.1f ? 9.1f : w)); /* from 9.1 on the result is 1 */
    return __builtin_copysignf(e / (e + 2.0f), x);
}

INLINE float log1p_f32(float x) {
    float u = 1.0f + x, d = u - 1.0f;
    return d == 0.0f || u == INFINITY ? (u == INFINITY ? u : x) : log_f32(u) * (x / d);
}

INLINE float expm1_f32(float x) {
    float near = moderate_expm1_f32(x < -30.0f ? -30.0f : x);
    return x > 1.0f ? exp_f32(x) - 1.0f : near;
}

/* max(x, 0) + exp(min(x, 0)) - 1; NaN stays NaN. */
INLINE float elu_of(float x) {
    const float low = x >= 0.0f ? 0.0f : x;
    return (x >= 0.0f ? x : 0.0f) + moderate_expm1_f32(low < -30.0f ? -30.0f : low);
}

INLINE float sqrt_f32(float x) { return __builtin_sqrtf(x); }
INLINE float pow_f32(float x, float y) { return (float)pow(x, y); }
#define exp_f64 exp
#define log_f64 log
#define tanh_f64 tanh
#define log1p_f64 log1p
#define expm1_f64 expm1
#define sqrt_f64 sqrt
#define pow_f64 pow

/* --- Elementwise loops: <NumPy's name>_<type of the operands>_<type of the result> */

typedef float f32;
typedef double f64;
typedef int64_t i64;
typedef int32_t i32;
typedef uint8_t u8;
typedef int8_t i8;
typedef uint8_t b8;

#define EACH(IN, OUT, SO, SA, SB, EXPRESSION, OTHERWISE)                                                               \
    for (int64_t at = 0; at < n; at++) {                                                                              \
        const IN a = *(const IN *)(first + at * (SA)), b = *(const IN *)(second + at * (SB));                         \
        (void)b;                                                                                                      \
        *(OUT *)(out + at * (SO)) = EXPRESSION;                                                                       \
        OTHERWISE;                                                                                                    \
    }
/* An output may be an operand, number by number; the planner refuses every other overlap. */
#define DENSE(IN, OUT, SA, SB, EXPRESSION) _Pragma("GCC ivdep") EACH(IN, OUT, sizeof(OUT), SA, SB, EXPRESSION, )
/* Loops that are rare or over few numbers are not vectorized: that would take most of the compile time. */
#define STRIDED(IN, OUT, EXPRESSION) EACH(IN, OUT, so, sa, sb, EXPRESSION, __asm__ volatile(""))
#define KERNEL(NAME)                                                                                                  \
    void NAME(char *out, const char *first, const char *second, int64_t n, int64_t so, int64_t sa, int64_t sb)

#define BINARY(NAME, IN, OUT, EXPRESSION)                                                                             \
    KERNEL(NAME) {                                                                                                    \
        const int64_t one = sizeof(IN);                                                                               \
        if (so == sizeof(OUT) && sa == one && sb == one) DENSE(IN, OUT, one, one, EXPRESSION)                         \
        else if (so == sizeof(OUT) && sa == one && sb == 0) DENSE(IN, OUT, one, 0, EXPRESSION)                        \
        else if (so == sizeof(OUT) && sa == 0 && sb == one) DENSE(IN, OUT, 0, one, EXPRESSION)                        \
        else STRIDED(IN, OUT, EXPRESSION)                                                                             \
    }
#define UNARY(NAME, IN, OUT, EXPRESSION)                                                                              \
    KERNEL(NAME) {                                                                                                    \
        if (so == sizeof(OUT) && sa == sizeof(IN)) DENSE(IN, OUT, sizeof(IN), sizeof(IN), EXPRESSION)                 \
        else STRIDED(IN, OUT, EXPRESSION)                                                                             \
    }
#define RARE(NAME, IN, OUT, EXPRESSION) KERNEL(NAME) { STRIDED(IN, OUT, EXPRESSION) }

#define OF_NUMBERS(T, ONE, TWO)                                                                                       \
    TWO(add_##T##_##T, T, T, a + b)                                                                                   \
    TWO(subtract_##T##_##T, T, T, a - b)                                                                              \
    TWO(multiply_##T##_##T, T, T, a * b)                                                                              \
    TWO(maximum_##T##_##T, T, T, a >= b || a != a ? a : b)                                                            \
    TWO(minimum_##T##_##T, T, T, a <= b || a != a ? a : b)                                                            \
    ONE(negative_##T##_##T, T, T, -a)                                                                                 \
    ONE(square_##T##_##T, T, T, a * a)                                                                                \
    ONE(sign_##T##_##T, T, T, a != a ? a : (T)((a > 0) - (a < 0)))                                                    \
    ONE(absolute_##T##_##T, T, T, a < 0 ? -a : (a == 0 ? 0 : a))
#define OF_ALL(T, ONE, TWO)                                                                                           \
    TWO(equal_##T##_b8, T, b8, a == b)                                                                                \
    TWO(not_equal_##T##_b8, T, b8, a != b)                                                                            \
    TWO(greater_##T##_b8, T, b8, a > b)                                                                               \
    TWO(greater_equal_##T##_b8, T, b8, a >= b)                                                                        \
    TWO(less_##T##_b8, T, b8, a < b)                                                                                  \
    TWO(less_equal_##T##_b8, T, b8, a <= b)                                                                           \
    RARE(logical_and_##T##_b8, T, b8, (a != 0) & (b != 0))                                                            \
    RARE(logical_or_##T##_b8, T, b8, (a != 0) | (b != 0))                                                             \
    RARE(logical_not_##T##_b8, T, b8, a == 0)                                                                         \
    ONE(copy_##T##_f32, T, f32, (f32)a)                                                                               \
    RARE(copy_##T##_f64, T, f64, (f64)a)                                                                              \
    RARE(copy_##T##_i64, T, i64, (i64)a)                                                                              \
    RARE(copy_##T##_i32, T, i32, (i32)a)                                                                              \
    RARE(copy_##T##_u8, T, u8, (u8)a)                                                                                 \
    RARE(copy_##T##_i8, T, i8, (i8)a)                                                                                 \
    RARE(copy_##T##_b8, T, b8, a != 0)
#define OF_REALS(T, ONE, TWO)                                                                                         \
    TWO(divide_##T##_##T, T, T, a / b)                                                                                \
    ONE(sqrt_##T##_##T, T, T, sqrt_##T(a))                                                                            \
    ONE(exp_##T##_##T, T, T, exp_##T(a))                                                                              \
    ONE(expm1_##T##_##T, T, T, expm1_##T(a))                                                                          \
    ONE(log_##T##_##T, T, T, log_##T(a))                                                                              \
    ONE(log1p_##T##_##T, T, T, log1p_##T(a))                                                                          \
    ONE(tanh_##T##_##T, T, T, tanh_##T(a))                                                                            \
    ONE(sigmoid_##T, T, T, 1 / (1 + exp_##T(-a)))                                                                     \
    TWO(sigmoid_gradient_##T, T, T, (1 - b) * b * a)                                                                  \
    TWO(tanh_gradient_##T, T, T, (1 - b * b) * a)                                                                     \
    RARE(power_##T##_##T, T, T, pow_##T(a, b))

OF_NUMBERS(f32, UNARY, BINARY) OF_NUMBERS(f64, RARE, RARE) OF_NUMBERS(i64, RARE, RARE) OF_NUMBERS(i32, RARE, RARE)
OF_ALL(f32, UNARY, BINARY) OF_ALL(f64, RARE, RARE) OF_ALL(i64, UNARY, RARE) OF_ALL(i32, RARE, RARE)
OF_ALL(u8, UNARY, RARE) OF_ALL(i8, RARE, RARE) OF_ALL(b8, UNARY, RARE)
OF_REALS(f32, UNARY, BINARY) OF_REALS(f64, RARE, RARE)
UNARY(reciprocal_f32_f32, f32, f32, 1.0f / a)
RARE(floor_f32_f32, f32, f32, __builtin_floorf(a))
BINARY(bitwise_and_b8_b8, b8, b8, a & b)
BINARY(bitwise_or_b8_b8, b8, b8, a | b)
UNARY(invert_b8_b8, b8, b8, !a)

/* Copies numbers of the first operand where the mask, the second one, is true. */
#define WHERE(NAME, T)                                                                                                \
    KERNEL(NAME) {                                                                                                    \
        _Pragma("GCC ivdep") for (int64_t at = 0; at < n; at++) {                                                     \
            const T old = *(T *)(out + at * so), new = *(const T *)(first + at * sa);                                 \
            *(T *)(out + at * so) = second[at * sb] ? new : old;                                                      \
        }                                                                                                             \
    }
WHERE(where_f32, f32)
WHERE(where_f64, f64)
WHERE(where_i64, i64)
WHERE(where_b8, b8)

UNARY(elu_f32, f32, f32, elu_of(a))
BINARY(elu_gradient_f32, f32, f32, exp_f32(b >= 0.0f ? 0.0f : b) * a)

/* Pairs of operations; the second uses the first one's result: bias and activation, Adam's denominator. */
BINARY(add_tanh_f32, f32, f32, tanh_f32(a + b))
BINARY(add_relu_f32, f32, f32, a + b >= 0 || a + b != a + b ? a + b : 0)
BINARY(sqrt_multiply_f32, f32, f32, sqrt_f32(a) * b)

/* Operations that change the output, o, by an operand and a number. */
#define CHANGE(NAME, EXPRESSION)                                                                                      \
    KERNEL(NAME) {                                                                                                    \
        if (so == sizeof(f32) && sa == sizeof(f32) && sb == 0)                                                        \
            _Pragma("GCC ivdep") for (int64_t at = 0; at < n; at++) {                                                 \
                const f32 o = ((f32 *)out)[at], a = ((const f32 *)first)[at], b = *(const f32 *)second;               \
                ((f32 *)out)[at] = EXPRESSION;                                                                        \
            }                                                                                                         \
        else                                                                                                          \
            for (int64_t at = 0; at < n; at++) {                                                                      \
                const f32 o = *(f32 *)(out + at * so), a = *(const f32 *)(first + at * sa);                           \
                const f32 b = *(const f32 *)(second + at * sb);                                                       \
                *(f32 *)(out + at * so) = EXPRESSION;                                                                 \
                __asm__ volatile("");                                                                                 \
            }                                                                                                         \
    }
CHANGE(move_towards_f32, o + (a - o) * b)
CHANGE(add_square_f32, o + a * a * b)

/* --- Steps that kernels take as a whole */

/* The length of the first half of a long sum. */
static inline int64_t half_of(int64_t n) { return n / 2 / LANES * LANES; }

/* Reduction of an operand [kept, kept, reduced] to an output [kept, kept]; one kept column at a time, or all columns of
   a row together where these are next to each other. */
#define REDUCE(NAME, T, EXPRESSION)                                                                                   \
    static void NAME##_columns(T *restrict o, const char *x, int64_t columns, int64_t n, int64_t by) {                \
        if (n > LONG && columns > WIDE) {                                                                             \
            for (int64_t c = 0; c < columns; c += WIDE)                                                               \
                NAME##_columns(o + c, x + c * sizeof(T), columns - c < WIDE ? columns - c : WIDE, n, by);             \
        } else if (n > LONG) {                                                                                        \
            T rest[WIDE];                                                                                             \
            NAME##_columns(o, x, columns, half_of(n), by);                                                            \
            NAME##_columns(rest, x + half_of(n) * by, columns, n - half_of(n), by);                                   \
            for (int64_t c = 0; c < columns; c++) {                                                                   \
                const T a = o[c], b = rest[c];                                                                        \
                o[c] = EXPRESSION;                                                                                    \
            }                                                                                                         \
        } else {                                                                                                      \
            memcpy(o, x, columns * sizeof(T));                                                                        \
            for (int64_t r = 1; r < n; r++) {                                                                         \
                const T *restrict y = (const T *)(x + r * by);                                                        \
                for (int64_t c = 0; c < columns; c++) {                                                               \
                    const T a = o[c], b = y[c];                                                                       \
                    o[c] = EXPRESSION;                                                                                \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
    void NAME(const Step *s) {                                                                                        \
        const int64_t columns = s->shape[1], n = s->shape[2], by = s->stride[1][2];                                   \
        for (int64_t row = 0; row < s->shape[0]; row++) {                                                             \
            char *out = s->at[0] + row * s->stride[0][0];                                                             \
            const char *x = s->at[1] + row * s->stride[1][0];                                                         \
            if (columns > 1 && s->stride[1][1] == sizeof(T) && s->stride[0][1] == sizeof(T))                          \
                NAME##_columns((T *)out, x, columns, n, by);                                                          \
            else                                                                                                      \
                for (int64_t c = 0; c < columns; c++)                                                                 \
                    *(T *)(out + c * s->stride[0][1]) = NAME##_of(x + c * s->stride[1][1], n, by);                    \
        }                                                                                                             \
    }
#define REDUCE_ONE(NAME, T, EXPRESSION)                                                                               \
    static T NAME##_of(const char *x, int64_t n, int64_t by) {                                                        \
        if (n > LONG * LANES) {                                                                                       \
            const T a = NAME##_of(x, half_of(n), by), b = NAME##_of(x + half_of(n) * by, n - half_of(n), by);         \
            return EXPRESSION;                                                                                        \
        }                                                                                                             \
        T lanes[LANES];                                                                                               \
        int64_t r = n < LANES ? n : LANES;                                                                            \
        for (int64_t l = 0; l < r; l++) lanes[l] = *(const T *)(x + l * by);                                          \
        int64_t used = r;                                                                                             \
        if (by == sizeof(T))                                                                                          \
            for (; r + LANES <= n; r += LANES)                                                                        \
                for (int64_t l = 0; l < LANES; l++) {                                                                 \
                    const T a = lanes[l], b = ((const T *)x)[r + l];                                                  \
                    lanes[l] = EXPRESSION;                                                                            \
                }                                                                                                     \
        for (; r < n; r++) {                                                                                          \
            const T a = lanes[r % LANES], b = *(const T *)(x + r * by);                                               \
            lanes[r % LANES] = EXPRESSION;                                                                            \
        }                                                                                                             \
        for (int64_t width = LANES / 2; width > 0; width /= 2)                                                        \
            for (int64_t l = 0; l < width && l + width < used; l++) {                                                 \
                const T a = lanes[l], b = lanes[l + width];                                                           \
                lanes[l] = EXPRESSION;                                                                                \
            }                                                                                                         \
        return lanes[0];                                                                                              \
    }
#define REDUCES(T)                                                                                                    \
    REDUCTION(add_reduce_##T, T, a + b)                                                                               \
    REDUCTION(maximum_reduce_##T, T, a >= b || a != a ? a : b)                                                        \
    REDUCTION(minimum_reduce_##T, T, a <= b || a != a ? a : b)
#define REDUCTION(NAME, T, EXPRESSION) REDUCE_ONE(NAME, T, EXPRESSION) REDUCE(NAME, T, EXPRESSION)
REDUCES(f32) REDUCES(f64) REDUCES(i64)
REDUCTION(logical_or_reduce_b8, b8, a | b)

/* The index of the first greatest number of each row [rows, n]; NaN counts as the greatest. */
void argmax_f32(const Step *s) {
    for (int64_t row = 0; row < s->shape[0]; row++) {
        const char *x = s->at[1] + row * s->stride[1][0];
        int64_t best = 0;
        f32 most = *(const f32 *)x;
        for (int64_t k = 1; k < s->shape[1] && most == most; k++) {
            const f32 a = *(const f32 *)(x + k * s->stride[1][1]);
            if (a > most || a != a) best = k, most = a;
        }
        *(i64 *)(s->at[0] + row * s->stride[0][0]) = best;
    }
}

/* Whether a comes before b in ascending order: NaN is last. */
#define IS_BEFORE(a, b) ((a) < (b) || ((a) == (a) && (b) != (b)))

/* The indices that sort each dense row [rows, n], by merging runs; equal numbers keep their order, and NaN is last. The
   second operand [n] is overwritten. */
#define ARGSORT(NAME, T)                                                                                               \
    void NAME(const Step *s) {                                                                                         \
        enum { RUN = 16 };                                                                                             \
        const int64_t n = s->shape[1];                                                                                 \
        for (int64_t row = 0; row < s->shape[0]; row++) {                                                              \
            const T *x = (const T *)s->at[1] + row * n;                                                                \
            i64 *places = (i64 *)s->at[0] + row * n, *merged = (i64 *)s->at[2];                                        \
            for (int64_t k = 0; k < n; k++) {                                                                          \
                int64_t to = k;                                                                                        \
                for (; to > k - k % RUN && IS_BEFORE(x[k], x[places[to - 1]]); to--) places[to] = places[to - 1];      \
                places[to] = k;                                                                                        \
            }                                                                                                          \
            for (int64_t run = RUN; run < n; run *= 2) {                                                               \
                for (int64_t k = 0; k < n;) {                                                                          \
                    const int64_t middle = k + run < n ? k + run : n, end = middle + run < n ? middle + run : n;       \
                    for (int64_t left = k, right = middle; k < end; k++) {                                             \
                        const int is_right =                                                                           \
                            right < end && (left == middle || IS_BEFORE(x[places[right]], x[places[left]]));           \
                        merged[k] = is_right ? places[right++] : places[left++];                                       \
                    }                                                                                                  \
                }                                                                                                      \
                memcpy(places, merged, n * sizeof(i64));                                                               \
            }                                                                                                          \
        }                                                                                                              \
    }
ARGSORT(argsort_f32, f32)
ARGSORT(argsort_i64, i64)

/* Counts, for each dense number [shape[0]], the ascending, dense bounds [shape[1]] that are below it or, if shape[2] is
   set, not above it. NaN is above all numbers. */
void searchsorted_f32(const Step *s) {
    const f32 *bounds = (const f32 *)s->at[1], *x = (const f32 *)s->at[2];
    for (int64_t k = 0; k < s->shape[0]; k++) {
        int64_t low = 0, high = s->shape[1];
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            const int is_passed = s->shape[2] ? !IS_BEFORE(x[k], bounds[middle]) : IS_BEFORE(bounds[middle], x[k]);
            if (is_passed) low = middle + 1;
            else high = middle;
        }
        ((i64 *)s->at[0])[k] = low;
    }
}

/* Takes numbers of a dense operand [shape[1]] at dense positions [shape[0]], which are clipped to its range. */
#define TAKE(NAME, T)                                                                                                 \
    void NAME(const Step *s) {                                                                                        \
        const i64 *positions = (const i64 *)s->at[2], last = s->shape[1] - 1;                                         \
        for (int64_t k = 0; k < s->shape[0]; k++) {                                                                   \
            const i64 p = positions[k] < 0 ? 0 : positions[k] > last ? last : positions[k];                           \
            ((T *)s->at[0])[k] = ((const T *)s->at[1])[p];                                                            \
        }                                                                                                             \
    }
TAKE(take_f32, f32)
TAKE(take_i64, i64)
TAKE(take_b8, b8)

/* Adds dense numbers [shape[0]] to a dense output [shape[1]] at dense positions, in order; skips positions outside. */
void add_at_f32(const Step *s) {
    const i64 *positions = (const i64 *)s->at[1];
    for (int64_t k = 0; k < s->shape[0]; k++)
        if (positions[k] >= 0 && positions[k] < s->shape[1])
            ((f32 *)s->at[0])[positions[k]] += ((const f32 *)s->at[2])[k];
}

typedef f32 Lanes __attribute__((vector_size(LANES * sizeof(f32))));
typedef i32 LaneBits __attribute__((vector_size(LANES * sizeof(f32))));

/* Takes numbers from a where the mask is set, and from b elsewhere. */
INLINE Lanes chosen(LaneBits mask, Lanes a, Lanes b) { return (Lanes)((mask & (LaneBits)a) | (~mask & (LaneBits)b)); }

/* Quantile Huber losses of estimates (quantiles and their fractions) [2, rows, n] for targets [rows, m], with shape =
   {rows, n, m}: for each quantile, the mean over its row's targets and this mean's slope, [2, rows, n]. All are dense. */
void quantile_pairs_f32(const Step *s) {
    const int64_t n = s->shape[1], m = s->shape[2], size = s->shape[0] * n;
    const Lanes zero = {0}, one = zero + 1.0f;
    for (int64_t at = 0; at < size;) {
        const int64_t row = at / n, left = (row + 1) * n - at, bytes = (left < LANES ? left : LANES) * sizeof(f32);
        const f32 *targets = (const f32 *)s->at[2] + row * m;
        f32 *losses = (f32 *)s->at[0] + at;
        Lanes q = zero, above = zero, loss = zero, slope = zero;
        memcpy(&q, (const f32 *)s->at[1] + at, bytes);
        memcpy(&above, (const f32 *)s->at[1] + size + at, bytes);
        const Lanes below = one - above; /* fractions are from 0 to 1 */
        for (int64_t j = 0; j < m; j++) {
            const Lanes u = targets[j] - q, low = chosen(u < -one, -one, u), within = chosen(low > one, one, low);
            const Lanes share = within * chosen(u < zero, below, above);
            loss += share * (u - 0.5f * within);
            slope -= share;
        }
        loss /= (f32)m, slope /= (f32)m;
        memcpy(losses, &loss, bytes);
        memcpy(losses + size, &slope, bytes);
        at += bytes / sizeof(f32);
    }
}

/* --- Products [batch, m, k] @ [batch, k, n], shape = {batch, m, n, k}; strides are of batch, row and column

   Each number of an output adds its k terms in ascending order, by fused multiply-add, whatever the width of the
   processor's vectors: all processors that have the instruction compute the same bits. */

#if defined(__AVX512F__)
enum { WIDTH = 16 };
#elif defined(__AVX2__) && HAS_FMA
enum { WIDTH = 8 };
#else
enum { WIDTH = 4 };
#endif

enum {
    TILE_ROWS = WIDTH == 8 ? 4 : 8, /* sums fill 24 of 32 registers; AVX2 has only 16 */
    TILE_VECTORS = 3,
    TILE_COLUMNS = TILE_VECTORS * WIDTH,
    DEPTH = 256, /* terms that are summed at a time: rows of a panel of b */
    /* Columns of an output below which the transposed product is computed. Four sums, as in a tile of four rows and one
       vector, are too few to keep the processor busy. */
    NARROW = WIDTH == 8 ? 8 : WIDTH / 2
};

typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef float Unaligned __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

#if defined(__clang__) && defined(__x86_64__)
#include <immintrin.h>
#define FUSED_16(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FUSED_8(a, b, c) _mm256_fmadd_ps(a, b, c)
#else /* GCC would spend a tenth of the compile time on that header */
#define FUSED_16(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4) /* all lanes, current rounding mode */
#define FUSED_8(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#endif

static inline Vector fused(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
    return FUSED_16(a, b, c);
#elif defined(__AVX2__) && HAS_FMA
    return FUSED_8(a, b, c);
#else
    for (int l = 0; l < WIDTH; l++) c[l] = FMA(a[l], b[l], c[l]);
    return c;
#endif
}

/* A matrix with strides, counted in numbers. */
typedef struct {
    f32 *at;
    int64_t row, column;
} Matrix;

/* Sums `depth` terms of R rows of V vectors, starting from c unless they are the first; b's columns are dense. */
static inline __attribute__((always_inline)) void tile(const int R, const int V, int is_first, int64_t depth, Matrix a,
                                                       const f32 *b, int64_t by_b, f32 *c, int64_t by_c) {
    Vector sums[8][TILE_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < R; i++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) sums[i][v] = (Vector){0};
    if (!is_first)
#pragma GCC unroll 8
        for (int i = 0; i < R; i++)
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) sums[i][v] = *(const Unaligned *)(c + i * by_c + v * WIDTH);
    for (int64_t p = 0; p < depth; p++) {
        Vector y[TILE_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) y[v] = *(const Unaligned *)(b + p * by_b + v * WIDTH);
#if defined(__AVX2__) && !defined(__AVX512F__)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) __asm__("" : "+x"(y[v])); /* otherwise GCC would load y[v] again for each row */
#endif
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            const Vector x = a.at[i * a.row + p * a.column] - (Vector){0};
#pragma GCC unroll 8
            for (int v = 0; v < V; v++) sums[i][v] = fused(x, y[v], sums[i][v]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; i++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) *(Unaligned *)(c + i * by_c + v * WIDTH) = sums[i][v];
}

#define ROWS(V)                                                                                                        \
    static void tile_##V(int rows, int is_first, int64_t depth, Matrix a, const f32 *b, int64_t by_b, f32 *c,          \
                         int64_t by_c) {                                                                               \
        if (rows == TILE_ROWS) tile(TILE_ROWS, V, is_first, depth, a, b, by_b, c, by_c);                               \
        else if (rows == 1) tile(1, V, is_first, depth, a, b, by_b, c, by_c);                                          \
        else if (rows == 2) tile(2, V, is_first, depth, a, b, by_b, c, by_c);                                          \
        else if (rows == 3) tile(3, V, is_first, depth, a, b, by_b, c, by_c);                                          \
        else if (TILE_ROWS == 8 && rows == 4) tile(4, V, is_first, depth, a, b, by_b, c, by_c);                        \
        else if (TILE_ROWS == 8 && rows == 5) tile(5, V, is_first, depth, a, b, by_b, c, by_c);                        \
        else if (TILE_ROWS == 8 && rows == 6) tile(6, V, is_first, depth, a, b, by_b, c, by_c);                        \
        else if (TILE_ROWS == 8) tile(7, V, is_first, depth, a, b, by_b, c, by_c);                                     \
    }
ROWS(1)
ROWS(2)
ROWS(3)

typedef float Four __attribute__((vector_size(16)));
typedef float UnalignedFour __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t FourPlaces __attribute__((vector_size(16)));

#ifdef __clang__
#define SHUFFLE(x, y, a, b, c, d) __builtin_shufflevector(x, y, a, b, c, d)
#else
#define SHUFFLE(x, y, a, b, c, d) __builtin_shuffle(x, y, (FourPlaces){a, b, c, d})
#endif

/* Transposes four rows of four numbers. */
static inline void turn(f32 *to, int64_t by_to, const f32 *from, int64_t by_from) {
    Four x[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) x[r] = *(const UnalignedFour *)(from + r * by_from);
    const Four low = SHUFFLE(x[0], x[1], 0, 4, 1, 5), high = SHUFFLE(x[0], x[1], 2, 6, 3, 7);
    const Four low2 = SHUFFLE(x[2], x[3], 0, 4, 1, 5), high2 = SHUFFLE(x[2], x[3], 2, 6, 3, 7);
    *(UnalignedFour *)(to + 0 * by_to) = SHUFFLE(low, low2, 0, 1, 4, 5);
    *(UnalignedFour *)(to + 1 * by_to) = SHUFFLE(low, low2, 2, 3, 6, 7);
    *(UnalignedFour *)(to + 2 * by_to) = SHUFFLE(high, high2, 0, 1, 4, 5);
    *(UnalignedFour *)(to + 3 * by_to) = SHUFFLE(high, high2, 2, 3, 6, 7);
}

/* Copies a panel [depth, columns] of b to rows of `width` numbers; the rest of each row becomes 0. */
static void pack(f32 *restrict panel, Matrix b, int64_t depth, int64_t columns, int64_t width) {
    if (columns < width) memset(panel, 0, depth * width * sizeof(f32));
    if (b.column == 1) {
        for (int64_t p = 0; p < depth; p++) memcpy(panel + p * width, b.at + p * b.row, columns * sizeof(f32));
        return;
    }
    const int64_t rows = b.row == 1 ? depth / 4 * 4 : 0;
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
        for (int64_t p = 0; p < rows; p += 4) turn(panel + p * width + j, width, b.at + p + j * b.column, b.column);
        for (int64_t p = rows; p < depth; p++)
            for (int64_t i = j; i < j + 4; i++) panel[p * width + i] = b.at[p * b.row + i * b.column];
    }
    for (; j < columns; j++)
        for (int64_t p = 0; p < depth; p++) panel[p * width + j] = b.at[p * b.row + j * b.column];
}

static inline void copy_entries(Matrix to, Matrix from, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) to.at[r * to.row + j * to.column] = from.at[r * from.row + j * from.column];
}

/* Sums the product of a [m, depth] and b [depth, columns <= TILE_COLUMNS], starting from c unless it is the first. */
static void sum_panel(int64_t m, int64_t columns, int64_t depth, Matrix a, Matrix b, Matrix c, int is_first) {
    f32 panel[DEPTH * TILE_COLUMNS], sums[TILE_ROWS * TILE_COLUMNS];
    const int vectors = (int)((columns + WIDTH - 1) / WIDTH);
    const int64_t width = vectors * WIDTH;
    /* Rows that are far apart would push each other out of the cache before the next rows of a need them. */
    const int is_read_often = m * depth >= 16 * TILE_ROWS * DEPTH;
    if (b.column != 1 || columns < width || is_read_often) {
        pack(panel, b, depth, columns, width);
        b = (Matrix){panel, width, 1};
    }
    const int is_direct = c.column == 1 && columns == width;
    for (int64_t i = 0; i < m; i += TILE_ROWS) {
        const int rows = m - i < TILE_ROWS ? (int)(m - i) : TILE_ROWS;
        const Matrix left = {a.at + i * a.row, a.row, a.column}, to = {c.at + i * c.row, c.row, c.column};
        const Matrix out = is_direct ? to : (Matrix){sums, width, 1};
        if (!is_direct && !is_first) copy_entries(out, to, rows, columns);
        if (vectors == 1) tile_1(rows, is_first, depth, left, b.at, b.row, out.at, out.row);
        else if (vectors == 2) tile_2(rows, is_first, depth, left, b.at, b.row, out.at, out.row);
        else tile_3(rows, is_first, depth, left, b.at, b.row, out.at, out.row);
        if (!is_direct) copy_entries(to, out, rows, columns);
    }
}

static void own_product(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, Matrix c) {
    if (n < NARROW && m > n) { /* the transposed product, whose rows are long */
        const Matrix left = {b.at, b.column, b.row}, right = {a.at, a.column, a.row};
        const int64_t columns = m;
        a = left, b = right, c = (Matrix){c.at, c.column, c.row}, m = n, n = columns;
    }
    for (int64_t p = 0; p < k; p += DEPTH) {
        const int64_t depth = k - p < DEPTH ? k - p : DEPTH;
        for (int64_t j = 0; j < n;) {
            const int64_t left = n - j, vectors = (left + WIDTH - 1) / WIDTH;
            const int64_t most = vectors == 4 ? 2 * WIDTH : TILE_COLUMNS; /* splits four vectors evenly, not as 3 + 1 */
            const int64_t columns = left < most ? left : most;
            sum_panel(m, columns, depth, (Matrix){a.at + p * a.column, a.row, a.column},
                      (Matrix){b.at + p * b.row + j * b.column, b.row, b.column},
                      (Matrix){c.at + j * c.column, c.row, c.column}, p == 0);
            j += columns;
        }
    }
}

int has_fused_products(void) { return HAS_FMA; }

static void *sgemm;
static int has_wide_integers;

void use_product(void *function, int is_wide) { sgemm = function, has_wide_integers = is_wide; }

static void library_product(const Step *s, char *c, const char *a, const char *b) {
    const int64_t m = s->shape[1], n = s->shape[2], k = s->shape[3];
    const int turn_a = s->stride[1][2] != sizeof(f32), turn_b = s->stride[2][2] != sizeof(f32);
    const int64_t by_a = s->stride[1][turn_a ? 2 : 1] / sizeof(f32), by_b = s->stride[2][turn_b ? 2 : 1] / sizeof(f32);
    const int64_t by_c = s->stride[0][1] / sizeof(f32);
    if (has_wide_integers)
        ((Gemm)sgemm)(ROW_MAJOR, turn_a ? TRANSPOSED : PLAIN, turn_b ? TRANSPOSED : PLAIN, m, n, k, 1.0f,
                      (const f32 *)a, by_a, (const f32 *)b, by_b, 0.0f, (f32 *)c, by_c);
    else
        ((Gemm32)sgemm)(ROW_MAJOR, turn_a ? TRANSPOSED : PLAIN, turn_b ? TRANSPOSED : PLAIN, m, n, k, 1.0f,
                        (const f32 *)a, by_a, (const f32 *)b, by_b, 0.0f, (f32 *)c, by_c);
}

static Matrix matrix(const Step *s, int operand, int64_t batch) {
    return (Matrix){(f32 *)(s->at[operand] + batch * s->stride[operand][0]),
                    s->stride[operand][1] / (int64_t)sizeof(f32), s->stride[operand][2] / (int64_t)sizeof(f32)};
}

void matmul_f32(const Step *s) {
    for (int64_t batch = 0; batch < s->shape[0]; batch++)
        own_product(s->shape[1], s->shape[2], s->shape[3], matrix(s, 1, batch), matrix(s, 2, batch),
                    matrix(s, 0, batch));
}

/* The same with BLAS, for large products and on processors without fused multiply-add. */
void matmul_blas_f32(const Step *s) {
    for (int64_t batch = 0; batch < s->shape[0]; batch++)
        library_product(s, s->at[0] + batch * s->stride[0][0], s->at[1] + batch * s->stride[1][0],
                        s->at[2] + batch * s->stride[2][0]);
}

/* The row c [n] of a product a [k] @ b [k, n], row by row of b, whose columns are next to each other. */
static void add_rows(f32 *restrict c, const char *a, const char *b, int64_t n, int64_t k, int64_t by_a, int64_t by_b) {
    if (k > LONG && n > WIDE) {
        for (int64_t at = 0; at < n; at += WIDE)
            add_rows(c + at, a, b + at * sizeof(f32), n - at < WIDE ? n - at : WIDE, k, by_a, by_b);
    } else if (k > LONG) {
        f32 rest[WIDE];
        add_rows(c, a, b, n, half_of(k), by_a, by_b);
        add_rows(rest, a + half_of(k) * by_a, b + half_of(k) * by_b, n, k - half_of(k), by_a, by_b);
        for (int64_t column = 0; column < n; column++) c[column] += rest[column];
    } else {
        memset(c, 0, n * sizeof(f32));
        for (int64_t r = 0; r < k; r++) {
            const f32 factor = *(const f32 *)(a + r * by_a);
            const f32 *restrict y = (const f32 *)(b + r * by_b);
            for (int64_t column = 0; column < n; column++) c[column] += factor * y[column];
        }
    }
}

void matmul_rows_f32(const Step *s) {
    for (int64_t batch = 0; batch < s->shape[0]; batch++)
        for (int64_t row = 0; row < s->shape[1]; row++)
            add_rows((f32 *)(s->at[0] + batch * s->stride[0][0] + row * s->stride[0][1]),
                     s->at[1] + batch * s->stride[1][0] + row * s->stride[1][1], s->at[2] + batch * s->stride[2][0],
                     s->shape[2], s->shape[3], s->stride[1][2], s->stride[2][1]);
}

/* The product of two vectors [k]. */
static f32 dot(const char *a, const char *b, int64_t k, int64_t by_a, int64_t by_b) {
    if (k > LONG * LANES)
        return dot(a, b, half_of(k), by_a, by_b) +
               dot(a + half_of(k) * by_a, b + half_of(k) * by_b, k - half_of(k), by_a, by_b);
    f32 lanes[LANES] = {0};
    int64_t r = 0;
    if (by_a == sizeof(f32) && by_b == sizeof(f32))
        for (; r + LANES <= k; r += LANES)
            for (int64_t l = 0; l < LANES; l++) lanes[l] += ((const f32 *)a)[r + l] * ((const f32 *)b)[r + l];
    for (; r < k; r++) lanes[r % LANES] += *(const f32 *)(a + r * by_a) * *(const f32 *)(b + r * by_b);
    for (int64_t width = LANES / 2; width > 0; width /= 2)
        for (int64_t l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return lanes[0];
}

/* Products with a vector [k] where the rows of the matrix are next to each other in k: the sum of each column of b. */
void matmul_dots_f32(const Step *s) {
    for (int64_t batch = 0; batch < s->shape[0]; batch++)
        for (int64_t column = 0; column < s->shape[2]; column++)
            *(f32 *)(s->at[0] + batch * s->stride[0][0] + column * s->stride[0][2]) =
                dot(s->at[1] + batch * s->stride[1][0],
                    s->at[2] + batch * s->stride[2][0] + column * s->stride[2][2], s->shape[3], s->stride[1][2],
                    s->stride[2][1]);
}

/* --- Running */

static void run_blocks(const Step *s) {
    const int64_t rows = s->shape[2], columns = s->shape[3];
    const int64_t block = columns >= BLOCK ? 1 : BLOCK / columns;
    for (int64_t first = 0; first < rows; first += block) {
        const int64_t n = rows - first < block ? rows - first : block;
        for (const Step *t = s; t < s + s->group; t++) {
            char *const o = t->at[0] + first * t->stride[0][2];
            const char *const a = t->at[1] + first * t->stride[1][2], *const b = t->at[2] + first * t->stride[2][2];
            if (t->is_flat)
                ((Loop)t->kernel)(o, a, b, n * columns, t->stride[0][3], t->stride[1][3], t->stride[2][3]);
            else
                for (int64_t r = 0; r < n; r++)
                    ((Loop)t->kernel)(o + r * t->stride[0][2], a + r * t->stride[1][2], b + r * t->stride[2][2], columns,
                                      t->stride[0][3], t->stride[1][3], t->stride[2][3]);
        }
    }
}

static void run_outer(const Step *s) {
    for (int64_t i = 0; i < s->shape[0]; i++)
        for (int64_t j = 0; j < s->shape[1]; j++) {
            Step inner = *s;
            for (int k = 0; k < 3; k++) inner.at[k] += i * s->stride[k][0] + j * s->stride[k][1];
            run_blocks(&inner);
        }
}

static void gather(char *to, const char *from, int64_t bytes, const int64_t *rows, int64_t num_rows) {
    if (bytes == sizeof(i32))
        for (int64_t r = 0; r < num_rows; r++) ((i32 *)to)[r] = ((const i32 *)from)[rows[r]];
    else if (bytes == sizeof(i64))
        for (int64_t r = 0; r < num_rows; r++) ((i64 *)to)[r] = ((const i64 *)from)[rows[r]];
    else
        for (int64_t r = 0; r < num_rows; r++) memcpy(to + r * bytes, from + rows[r] * bytes, bytes);
}

void run_steps(const Step *steps, int64_t num_steps) {
    for (const Step *s = steps; s < steps + num_steps; s += s->group ? s->group : 1) {
        if (!s->group) ((Whole)s->kernel)(s);
        else if (s->shape[0] * s->shape[1] == 1) run_blocks(s);
        else run_outer(s);
    }
}

/* Runs the steps for `count` minibatches: gathers each one's rows, and adds its first `size` results to the totals. */
void run(const Step *steps, int64_t num_steps, const Column *columns, int64_t num_columns, const int64_t *rows,
         int64_t num_rows, int64_t count, const float *results, float *totals, int64_t size) {
    for (int64_t k = 0; k < count; k++, rows += num_rows) {
        for (const Column *c = columns; c < columns + num_columns; c++) gather(c->to, c->from, c->bytes, rows, num_rows);
        run_steps(steps, num_steps);
        for (int64_t i = 0; i < size; i++) totals[i] += results[i];
    }
}

/* --- Transitions of a replay buffer */

typedef struct { /* NumPy's bitgen_t */
    void *state;
    uint64_t (*next_uint64)(void *);
    uint32_t (*next_uint32)(void *);
    double (*next_double)(void *);
    uint64_t (*next_raw)(void *);
} BitGenerator;

typedef struct {
    const BitGenerator *generator;
    const b8 *ready;         /* by index: whether the step can be sampled */
    const uint16_t *lengths; /* by index: steps of the transition; NULL: one */
    int64_t slots, size;     /* env slots, and entries of a worker: rows times slots */
    f64 gamma;
} Transitions;

/* A number below `bound`, from the same random bits as NumPy's Generator.integers (Lemire, arXiv:1805.10941). */
static int64_t drawn_below(const BitGenerator *generator, uint32_t bound) {
    if (bound == 1) return 0;
    uint64_t product = (uint64_t)generator->next_uint32(generator->state) * bound;
    if ((uint32_t)product < bound)
        for (const uint32_t least = -bound % bound; (uint32_t)product < least;)
            product = (uint64_t)generator->next_uint32(generator->state) * bound;
    return (int64_t)(product >> 32);
}

/* Draws `times` times `number` indices of steps that can be sampled, which are below `bound`. The next draws replace
   those of steps that cannot be sampled, before others are drawn. */
void draw_steps(const Transitions *t, int64_t bound, int64_t number, int64_t times, int64_t *indices) {
    for (int64_t *own = indices; own < indices + times * number; own += number) {
        for (int64_t i = 0; i < number; i++) own[i] = drawn_below(t->generator, (uint32_t)bound);
        for (int64_t wrong = number; wrong;) {
            wrong = 0;
            for (int64_t i = 0; i < number; i++)
                if (!t->ready[own[i]]) own[i] = drawn_below(t->generator, (uint32_t)bound), wrong++;
        }
    }
}

/* Finds the indices of the bootstrap states of the n transitions that begin at some indices. */
static void follow(const Transitions *t, const int64_t *indices, int64_t n, int64_t *following) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t within = indices[i] % t->size, steps = t->lengths ? t->lengths[indices[i]] : 1;
        following[i] = indices[i] - within + (within + steps * t->slots) % t->size;
    }
}

/* Reads one column of n transitions, for the k-th of the minibatches that are read in one call. */
static void read_column(const Transitions *t, const Column *c, const int64_t *indices, const int64_t *following,
                        int64_t n, int64_t k) {
    f32 *const numbers = (f32 *)c->to;
    switch (c->kind) {
    case AT_STEP: gather(c->to, c->from, c->bytes, indices, n); break;
    case AT_BOOTSTRAP: gather(c->to, c->from, c->bytes, following, n); break;
    case DISCOUNT:
        for (int64_t i = 0; i < n; i++) numbers[i] = c->from[indices[i]] ? 0.0f : (f32)t->gamma;
        break;
    case ONE:
        for (int64_t i = 0; i < n; i++) numbers[i] = 1.0f;
        break;
    default: memcpy(c->to, c->from + k * c->bytes, c->bytes);
    }
}

/* Reads the transitions that begin at n indices: into `block` the indices of their bootstrap states, and then column
   after column. */
void read_transitions(const Transitions *t, const Column *columns, int64_t num_columns, const int64_t *indices,
                      int64_t n, int64_t *block) {
    follow(t, indices, n, block);
    char *to = (char *)(block + n);
    for (int64_t i = 0; i < num_columns; to += n * columns[i].bytes, i++) {
        const Column column = {columns[i].from, to, columns[i].bytes, columns[i].kind};
        read_column(t, &column, indices, block, n, 0);
    }
}

/* Parameters [size] that a target network follows. */
typedef struct {
    f32 *target;
    const f32 *present;
    int64_t size;
    int64_t every; /* minibatches from one update to the next; 0: never */
    f64 tau;
} Target;

/* target <- target + tau (present - target), rounded as by torch's `lerp`. */
static void update_target(const Target *own) {
    const f32 tau = (f32)own->tau, rest = tau - 1.0f;
    const f32 *restrict present = own->present;
    f32 *restrict target = own->target;
    if (own->tau == 1.0) memcpy(target, present, own->size * sizeof(f32));
    else if (tau < 0.5f)
        for (int64_t i = 0; i < own->size; i++) target[i] = FMA(tau, present[i] - target[i], target[i]);
    else
        for (int64_t i = 0; i < own->size; i++) target[i] = FMA(rest, present[i] - target[i], present[i]);
}

typedef struct {
    const Transitions *transitions;
    const Column *columns;
    const Step *steps;
    const f32 *results;
    const Target *target;
    int64_t num_columns, num_steps, num_totals;
    int64_t *drawn, *following; /* indices of the last minibatch */
    int64_t num_rows;           /* of a minibatch */
} Learning;

/* Learns from `count` minibatches of a replay buffer, one after another: draws their steps from those below `bound`
   unless they are chosen, reads the columns, runs the update, and adds its first results to the totals. `seen`
   minibatches have passed since the last update of the target network. */
void learn(const Learning *l, const int64_t *chosen, int64_t bound, int64_t count, int64_t seen, f32 *totals) {
    for (int64_t k = 0; k < count; k++) {
        if (!chosen) draw_steps(l->transitions, bound, l->num_rows, 1, l->drawn);
        const int64_t *indices = chosen ? chosen + k * l->num_rows : l->drawn;
        follow(l->transitions, indices, l->num_rows, l->following);
        for (int64_t c = 0; c < l->num_columns; c++)
            read_column(l->transitions, l->columns + c, indices, l->following, l->num_rows, k);
        run_steps(l->steps, l->num_steps);
        for (int64_t i = 0; i < l->num_totals; i++) totals[i] += l->results[i];
        if (l->target->every && (seen + k + 1) % l->target->every == 0) update_target(l->target);
    }
}
