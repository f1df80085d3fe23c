import { readdirSync, statfsSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { findProcess, findStatus, listThreads, type ThreadStatus } from '../process/process-status.ts'

/** Threads that are inspected before other work gets a turn: about a millisecond. */
const THREADS_PER_TURN = 32
const AGENT_PID = 2
const FILTER_MODE = 2
/** The base, the conditions and the allow-list: see native/src/privileges.c. */
const FILTERS = 3
/** Burrows of an older release, whose PID 1 had no filter, have no base. An updated server adopts them. */
const FILTERS_WITHOUT_BASE = 2
const PROC_MAGIC = 0x9fa0

/** Numbers of the capabilities that native/src/capabilities.c keeps. */
const KEPT_CAPABILITIES = [0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31]
const KEPT_MASK = KEPT_CAPABILITIES.reduce((mask, number) => mask | (1n << BigInt(number)), 0n)

export interface Inspected {
  /** PID 1, as the host sees it. */
  readonly firstPid: number
  /** The members of each of the burrow's cgroups, as the host sees them. */
  readonly members: readonly (readonly number[])[]
}

export interface Objection {
  /** As the burrow sees it; for a program of the host, as the host sees it. */
  readonly pid: number
  readonly reason: string
  /** Likely over in a moment: a program of the host that leaves, or a process between vfork and exec. */
  readonly isPassing: boolean
}

/**
 * Inspects every thread of a burrow from outside. CRIU saves only the agent's descendants, with their seccomp filters
 * and capabilities as they are, so both are checked here. Returns undefined when there is no objection.
 * Pre: the burrow is frozen, so nothing changes before CRIU has seized every member.
 */
export async function inspectProcesses({ firstPid, members }: Inspected): Promise<Objection | undefined> {
  const [pids = [], ...others] = members
  const processes = new Map<number, ThreadStatus>()
  const first = findProcess(firstPid)
  const expected = {
    filters: first?.seccompMode === FILTER_MODE ? FILTERS : FILTERS_WITHOUT_BASE,
    // The freezer of cgroup v1 shows every process as D, even PID 1, which only ever sleeps.
    mayBeUninterruptible: first?.state === 'D',
  }
  let looked = 0
  for (const pid of pids) {
    const found = findProcess(pid)
    if (found === undefined || hasEnded(found)) continue
    processes.set(pid, found)
    if (pid === firstPid) continue
    for (const thread of listThreads(found)) {
      const objection = objectTo(thread, expected)
      if (objection !== undefined) return objection
      looked += 1
      if (looked % THREADS_PER_TURN === 0) await setImmediate()
    }
  }
  return (
    findNonDescendant(processes, firstPid) ??
    findMissing(processes, others) ??
    findOutside(processes, firstPid)
  )
}

function objectTo(
  thread: ThreadStatus,
  { filters, mayBeUninterruptible }: { filters: number; mayBeUninterruptible: boolean },
): Objection | undefined {
  const object = (reason: string, isPassing = false) => ({
    pid: thread.insidePid ?? thread.pid,
    reason,
    isPassing,
  })
  if (hasEnded(thread)) return undefined
  // Programs of the host do not have the filters of a burrow, and leave.
  if (thread.insidePid === undefined)
    return object('it is a program of the host that is about to leave', true)
  if (thread.tracerPid !== 0) return object('it is being traced (gdb, strace)')
  // Every other frozen thread sleeps and can be interrupted. This one is inspected again after a short thaw.
  if ('DR'.includes(thread.state) && !mayBeUninterruptible)
    return object('it waits for a vforked child that has not started a program yet', true)
  if (thread.seccompMode !== FILTER_MODE || (thread.filterCount ?? filters) < filters)
    return object('it does not carry the seccomp filters of its sandbox', isOfHost(thread))
  if (!thread.hasNoNewPrivileges) return object('it runs without no_new_privs', isOfHost(thread))
  if ((thread.capabilities & ~KEPT_MASK) !== 0n)
    return object('it has capabilities that no process of a sandbox has', isOfHost(thread))
  return undefined
}

/** A CRIU that has just restored the burrow is in its pid namespace, but its parent is not. */
function isOfHost({ parentPid }: ThreadStatus): boolean {
  return findProcess(parentPid)?.insidePid === undefined
}

/**
 * Finds a process that is neither the agent nor its descendant, such as one that PID 1 adopted. CRIU does not save it,
 * and it could share memory with a process that is saved.
 */
function findNonDescendant(
  processes: ReadonlyMap<number, ThreadStatus>,
  firstPid: number,
): Objection | undefined {
  /** Whether a process is the agent or its descendant, as far as known. */
  const descends = new Map<number, boolean>()
  for (const process of processes.values()) {
    const path: number[] = []
    let at: ThreadStatus | undefined = process
    let result: boolean | undefined
    while (result === undefined) {
      if (at === undefined) result = false
      else if (at.pid === firstPid) result = path.length === 0
      else if (at.insidePid === AGENT_PID) result = at.parentPid === firstPid
      else result = descends.get(at.pid)
      if (result === undefined && at !== undefined) {
        path.push(at.pid)
        at = processes.get(at.parentPid)
      }
    }
    for (const pid of path) descends.set(pid, result)
    if (!result)
      return {
        pid: process.insidePid ?? process.pid,
        reason: 'it is not a descendant of the agent',
        isPassing: isOfHost(process),
      }
  }
  return undefined
}

/** Finds a process that is in some cgroups of the burrow but not in all: it escapes some limits, or is not frozen. */
function findMissing(
  processes: ReadonlyMap<number, ThreadStatus>,
  others: readonly (readonly number[])[],
): Objection | undefined {
  const reason = 'it is not in every cgroup of its sandbox'
  for (const members of others.map((pids) => new Set(pids))) {
    const missing = [...processes.values()].find(({ pid }) => !members.has(pid))
    const extra = [...members].map((pid) => processes.has(pid) || findProcess(pid)).find(isAlive)
    const found = missing ?? extra
    if (found !== undefined) return { pid: found.insidePid ?? found.pid, reason, isPassing: true }
  }
  return undefined
}

function isAlive(found: ThreadStatus | boolean | undefined): found is ThreadStatus {
  return typeof found === 'object' && !hasEnded(found)
}

/**
 * Finds a process of the pid namespace that is in no cgroup of the burrow. Nothing inside can mount anything over the
 * burrow's own /proc.
 */
function findOutside(processes: ReadonlyMap<number, ThreadStatus>, firstPid: number): Objection | undefined {
  const directory = `/proc/${firstPid}/root/proc`
  const known = new Set([...processes.values()].map(({ insidePid }) => insidePid))
  if (statfsSync(directory).type !== PROC_MAGIC)
    return { pid: 1, reason: 'its /proc is not one', isPassing: false }
  for (const name of readdirSync(directory)) {
    if (!/^\d+$/.test(name) || known.has(Number(name))) continue
    const found = findStatus(`${directory}/${name}/status`)
    if (found !== undefined && !hasEnded(found))
      return { pid: Number(name), reason: 'it is not in the cgroup of its sandbox', isPassing: true }
  }
  return undefined
}

function hasEnded({ state }: ThreadStatus): boolean {
  return state === 'Z' || state === 'X'
}
