/** A thread that waits in a system call: what /proc/<pid>/task/<tid>/syscall shows. */
export interface BlockedCall {
  readonly number: number
  readonly args: readonly bigint[]
  readonly stackPointer: bigint
  readonly instructionPointer: bigint
}

/** How long a call waits: until a time on a clock, or for a time since the call began. */
export type CallTimeout =
  | { readonly kind: 'until'; readonly clock: 'realtime' | 'monotonic' | 'boottime'; readonly ns: bigint }
  | { readonly kind: 'for'; readonly ns: bigint }

/** Reads two 64-bit numbers from the memory of the process. Undefined when there is none at that address. */
export type ReadPair = (address: bigint) => readonly [bigint, bigint] | undefined

/** The numbers of the calls on x86-64. */
export const CALL = {
  poll: 7,
  select: 23,
  nanosleep: 35,
  rtSigtimedwait: 128,
  futex: 202,
  restart: 219,
  semtimedop: 220,
  clockNanosleep: 230,
  epollWait: 232,
  pselect6: 270,
  ppoll: 271,
  epollPwait: 281,
  epollPwait2: 441,
} as const

export const TIMER_ABSTIME = 1n

const FUTEX_COMMAND = 0x7fn
const FUTEX_CLOCK_REALTIME = 0x100n
const FUTEX_WAIT = 0n
const FUTEX_WAIT_BITSET = 9n
/** Lock a mutex with priority inheritance: until a time of the wall clock. */
const FUTEX_LOCK_PI = 6n
const NS_PER_S = 1_000_000_000n

/** Parses the file; undefined for a thread that runs, or that waits outside a system call. */
export function parseBlockedCall(text: string): BlockedCall | undefined {
  const [number, ...rest] = text.trim().split(' ')
  if (number === undefined || !/^\d+$/.test(number) || rest.length !== 8) return undefined
  const values = rest.map(BigInt)
  return {
    number: Number(number),
    args: values.slice(0, 6),
    stackPointer: values[6] ?? 0n,
    instructionPointer: values[7] ?? 0n,
  }
}

/** Undefined for a call that has no time-out, or that never waits. */
export function findTimeout({ number, args }: BlockedCall, read: ReadPair): CallTimeout | undefined {
  const arg = (index: number) => args[index] ?? 0n
  const timespec = (address: bigint) => toNs(address === 0n ? undefined : read(address), NS_PER_S)
  switch (number) {
    case CALL.poll:
      return forMilliseconds(arg(2))
    case CALL.epollWait:
    case CALL.epollPwait:
      return forMilliseconds(arg(3))
    case CALL.select:
      // A `timeval` has microseconds.
      return during(toNs(arg(4) === 0n ? undefined : read(arg(4)), 1_000_000n))
    case CALL.pselect6:
      return during(timespec(arg(4)))
    case CALL.ppoll:
    case CALL.rtSigtimedwait:
      return during(timespec(arg(2)))
    case CALL.epollPwait2:
    case CALL.semtimedop:
      return during(timespec(arg(3)))
    case CALL.nanosleep:
      return during(timespec(arg(0)))
    case CALL.clockNanosleep: {
      const ns = timespec(arg(2))
      return (arg(1) & TIMER_ABSTIME) === 0n ? during(ns) : until(arg(0), ns)
    }
    case CALL.futex:
      return futexTimeout(arg(1), timespec(arg(3)))
    default:
      return undefined
  }
}

function futexTimeout(operation: bigint, ns: bigint | undefined): CallTimeout | undefined {
  const command = operation & FUTEX_COMMAND
  if (command === FUTEX_WAIT) return during(ns)
  if (command === FUTEX_LOCK_PI) return until(0n, ns)
  if (command === FUTEX_WAIT_BITSET) return until((operation & FUTEX_CLOCK_REALTIME) === 0n ? 1n : 0n, ns)
  return undefined
}

/** A C `int`: negative means for ever, and 0 does not wait. */
function forMilliseconds(value: bigint): CallTimeout | undefined {
  const ms = BigInt.asIntN(32, value)
  return ms > 0n ? { kind: 'for', ns: ms * 1_000_000n } : undefined
}

function during(ns: bigint | undefined): CallTimeout | undefined {
  return ns === undefined ? undefined : { kind: 'for', ns }
}

function until(clockId: bigint, ns: bigint | undefined): CallTimeout | undefined {
  const clock = clockOf(clockId)
  return ns === undefined || clock === undefined ? undefined : { kind: 'until', clock, ns }
}

/** Undefined for clocks of CPU time, which stand still while a sandbox sleeps. */
function clockOf(id: bigint): 'realtime' | 'monotonic' | 'boottime' | undefined {
  if (id === 0n || id === 8n) return 'realtime'
  if (id === 1n) return 'monotonic'
  return id === 7n || id === 9n ? 'boottime' : undefined
}

function toNs(pair: readonly [bigint, bigint] | undefined, fractionsPerSecond: bigint): bigint | undefined {
  if (pair === undefined) return undefined
  const [seconds, fraction] = pair
  const isValid = seconds >= 0n && fraction >= 0n && fraction < fractionsPerSecond
  return isValid ? seconds * NS_PER_S + fraction * (NS_PER_S / fractionsPerSecond) : undefined
}
