import { unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { findImage, writeImage } from './image-file.ts'
import { findMessage, getUint, type Message, setMessage, setUint } from './message.ts'

const CORE_THREAD = 2
const THREAD_REGISTERS = 2
const REGISTER = { ax: 11, dx: 13, si: 14, di: 15, ip: 17 } as const
const EINTR = BigInt.asUintN(64, -4n)
const CLOCK_NANOSLEEP = 230n
const CLOCK_MONOTONIC = 1n
const TIMER_ABSTIME = 1n
/** Of the instruction `syscall`. */
const SYSCALL_BYTES = 2n

/** A thread that sleeps for a time, and where its memory holds the time on its monotonic clock when it wakes. */
export interface SleepingThread {
  /** As the burrow sees it. */
  readonly tid: number
  readonly untilAddress: bigint
}

/**
 * CRIU lets `clock_nanosleep` with a relative time fail with EINTR, and many programs then sleep for the whole time
 * again. This makes each thread repeat the call with the absolute time that was written into its memory.
 */
export async function mendSleepingThreads(
  imageDir: string,
  threads: readonly SleepingThread[],
): Promise<void> {
  for (const { tid, untilAddress } of threads) {
    const path = join(imageDir, `core-${tid}.img`)
    const image = await findImage(path)
    const core = image?.records[0]?.message
    if (image === undefined || core === undefined || !sleepUntil(core, untilAddress)) continue
    await unlink(path)
    await writeImage(path, image)
  }
}

/** Returns false when CRIU did not save the thread in an interrupted call. */
export function sleepUntil(core: Message, untilAddress: bigint): boolean {
  const thread = findMessage(core, CORE_THREAD)
  const registers = thread && findMessage(thread, THREAD_REGISTERS)
  if (thread === undefined || registers === undefined || getUint(registers, REGISTER.ax) !== EINTR)
    return false
  setUint(registers, REGISTER.ax, CLOCK_NANOSLEEP)
  setUint(registers, REGISTER.di, CLOCK_MONOTONIC)
  setUint(registers, REGISTER.si, TIMER_ABSTIME)
  setUint(registers, REGISTER.dx, untilAddress)
  setUint(registers, REGISTER.ip, getUint(registers, REGISTER.ip) - SYSCALL_BYTES)
  setMessage(thread, THREAD_REGISTERS, registers)
  setMessage(core, CORE_THREAD, thread)
  return true
}
