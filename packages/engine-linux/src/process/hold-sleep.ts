import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { basename } from 'node:path'
import { CALL, TIMER_ABSTIME } from './call-timeout.ts'
import { type ClocksInside, findBlockedCall, type PendingWait } from './pending-waits.ts'
import { findStatus } from './process-status.ts'

/** A function may use this much memory below the stack pointer; nothing uses what is below that. */
const RED_ZONE_BYTES = 128n
const TIMESPEC_BYTES = 16n
const NS_PER_S = 1_000_000_000n
const MAPS_MAX_BYTES = 256 * 1024

/** A thread in `clock_nanosleep`, and where its memory now holds the time on its monotonic clock when it wakes. */
export interface HeldSleep {
  readonly tid: number
  readonly untilAddress: bigint
}

/**
 * Writes the time when a sleeping thread wakes into unused memory below its stack, so that the call can be repeated
 * with an absolute time after a restore. Only for calls of the C library, which does not use the arguments again.
 * Pre: the thread is frozen; `wait` was found at most a moment before, at `foundNs` of the host's monotonic clock.
 * Undefined when it is not such a call, or not the same call any more.
 */
export function holdSleep(
  { pid, tid, call, leftNs }: PendingWait,
  { clocks, foundNs }: { clocks: ClocksInside; foundNs: bigint },
): HeldSleep | undefined {
  const [, flags = 0n] = call.args
  if (call.number !== CALL.clockNanosleep || (flags & TIMER_ABSTIME) !== 0n) return undefined
  const thread = `/proc/${pid}/task/${tid}`
  const now = findBlockedCall(thread)
  const isSame =
    now?.number === call.number &&
    now.stackPointer === call.stackPointer &&
    now.args.every((arg, index) => arg === call.args[index])
  const inside = findStatus(`${thread}/status`)?.insidePid
  if (!isSame || inside === undefined || !isInCLibrary(pid, call.instructionPointer)) return undefined
  const untilNs = foundNs + clocks.monotonicOffsetNs + leftNs
  const untilAddress = BigInt.asUintN(64, (call.stackPointer - RED_ZONE_BYTES - TIMESPEC_BYTES) & ~15n)
  return untilNs > 0n && writeTimespec(pid, untilAddress, untilNs) ? { tid: inside, untilAddress } : undefined
}

function isInCLibrary(pid: number, address: bigint): boolean {
  for (const line of readStart(`/proc/${pid}/maps`).split('\n')) {
    const match = /^(?<start>[0-9a-f]+)-(?<end>[0-9a-f]+) \S+ \S+ \S+ \S+\s*(?<path>.*)$/.exec(line)?.groups
    if (match === undefined) continue
    const [start, end] = [BigInt(`0x${match['start']}`), BigInt(`0x${match['end']}`)]
    if (address >= start && address < end) return /^(?:libc[.-]|ld-musl)/.test(basename(match['path'] ?? ''))
  }
  return false
}

function writeTimespec(pid: number, address: bigint, ns: bigint): boolean {
  const bytes = Buffer.alloc(Number(TIMESPEC_BYTES))
  bytes.writeBigInt64LE(ns / NS_PER_S, 0)
  bytes.writeBigInt64LE(ns % NS_PER_S, 8)
  try {
    const fd = openSync(`/proc/${pid}/mem`, 'r+')
    try {
      // An address inside fits into 47 bits.
      return writeSync(fd, bytes, 0, bytes.length, Number(address)) === bytes.length
    } finally {
      closeSync(fd)
    }
  } catch {
    return false
  }
}

/** Hostile code may have tens of thousands of mappings. */
function readStart(path: string): string {
  const bytes = Buffer.alloc(MAPS_MAX_BYTES)
  try {
    const fd = openSync(path, 'r')
    try {
      // The kernel returns one page at a time.
      for (let at = 0; ; ) {
        const count = readSync(fd, bytes, at, bytes.length - at, null)
        at += count
        if (count === 0 || at === bytes.length) return bytes.toString('latin1', 0, at)
      }
    } finally {
      closeSync(fd)
    }
  } catch {
    return ''
  }
}
