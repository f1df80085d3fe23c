import type {
  BurrowId,
  BurrowLimits,
  BurrowLimitsInput,
  Isolation,
  SandboxId,
  SnapshotId,
  VolumeId,
} from '@dormouse/contracts'
import type { BurrowMemory, BurrowUsage, ShownDisk } from './burrow-usage.ts'
import type { EngineCapabilities } from './engine-capabilities.ts'
import type { EngineFiles, Preparation } from './engine-files.ts'
import type { ImportedImage, ImportImage, ProgramSettings } from './engine-images.ts'
import type { EngineFailureKind } from './engine-log.ts'
import type { EngineVolumes } from './engine-volumes.ts'
import type { ForkedBurrow, ForkOptions } from './fork-options.ts'
import type { Gate, GateKeeper, OpenEnd, ParkedConnections } from './gate.ts'
import type { Guest, SnapshotFiles } from './guest.ts'
import type { Measurement, StopAt, StorageReport } from './measurement.ts'
import type { SnapshotTransfer } from './snapshot-transfer.ts'

export interface CreateBurrow {
  readonly sandboxId: SandboxId
  /** Name of a template; `python` always exists. */
  readonly template: string
  /** For engines with several; `process` by default. */
  readonly isolation?: Isolation
  readonly limits?: BurrowLimitsInput
  /** The user that runs code when a call names none: a user of the template, `root` by default. */
  readonly user?: string
  /** Added to the environment of every process that starts inside. */
  readonly env?: Readonly<Record<string, string>>
  readonly volumes?: readonly VolumeMount[]
}

/** A directory that outlives burrows, and where a burrow mounts it. Several burrows may mount the same one. */
export interface VolumeMount {
  readonly volumeId: VolumeId
  /** An absolute path inside, see `mountPathProblem`. Missing parent directories are made. */
  readonly path: string
  readonly readOnly: boolean
}

/** Why a burrow has ended. */
export type BurrowEnd =
  | { readonly reason: 'destroyed' }
  /** It was saved; the snapshot is on disk. */
  | { readonly reason: 'stored'; readonly snapshotId: SnapshotId }
  /** The agent ended by itself: `exitCode`, or the number of the `signal`. */
  | { readonly reason: 'agent_ended'; readonly exitCode?: number; readonly signal?: number }
  /** The whole tree was killed from outside, or the host ran out of memory. */
  | { readonly reason: 'killed' }

/** The live thing: the processes of a sandbox, or its machine, and everything that holds them. */
export interface Burrow extends AsyncDisposable {
  readonly id: BurrowId
  readonly sandboxId: SandboxId
  readonly template: string
  readonly isolation: Isolation
  readonly limits: BurrowLimits
  readonly createdAt: Date
  /** Talks to the agent inside. Its calls fail with `burrow_ended` once `ended` has settled. */
  readonly guest: Guest
  /** Settles when the last process has ended; never rejects. */
  readonly ended: Promise<BurrowEnd>

  /** Post: the new limits apply and `limits` shows them; or they are refused and the old ones apply. */
  setLimits(limits: BurrowLimitsInput): Promise<void>
  /**
   * Post: every process that starts inside from now on has these variables, and live Python contexts have them in their
   * next run. Other variables stay.
   */
  addEnv(env: Readonly<Record<string, string>>): Promise<void>
  /** What the burrow uses of the host. Programs that can see their limits see at most this much of them as used. */
  usage(): Promise<BurrowUsage>
  /** With `atMemoryLimit: 'pause'`: whether processes inside wait because the burrow has reached its memory limit. */
  waitsForMemory(): Promise<boolean>
  /**
   * While `work` runs, processes that wait for memory get a little more than the limit, so that the agent answers and
   * a snapshot can be taken. They get at most a quarter more, and not as fast as they can use it.
   */
  withHeadroom<Value>(work: () => Promise<Value>): Promise<Value>
  /** Memory that Linux cannot give back without ending processes: no page cache. Costs more than `usage`. */
  anonymousBytes(): Promise<number>
  /** Engines do not limit the disk; they only show the limits inside. Never throws. */
  showDisk(disk: ShownDisk): void
  /** Bytes that its processes have written to disks so far, roughly: for comparing with a later value. Cheap. */
  writtenSoFar(): Promise<number>
  /**
   * Visits every page, which takes tens of milliseconds for a gigabyte: call it rarely. Undefined when the burrow has
   * ended, or when it would take too long.
   */
  memory(): Promise<BurrowMemory | undefined>
  /**
   * Post: nothing inside runs, and no process inside can notice: it gets no signal. A call that waits may
   * return early. Memory stays. May be called again. Waits for a snapshot that is being taken, and does nothing when the
   * burrow has ended with it.
   */
  freeze(): Promise<void>
  /** Post: everything inside continues. May be called again. */
  thaw(): Promise<void>
  /**
   * Opens the gate. No burrow has an open gate at first, neither a new nor a restored nor an adopted one.
   * Pre: `capabilities.network` (`host_unsupported`), no other gate of the burrow is open (`conflict`), no process
   * inside uses the resolver's port (`in_use`). A process that continues from a snapshot finds its connections to the
   * outside closed, except those that `keeper` kept.
   */
  openGate(keeper?: GateKeeper): Promise<Gate>
  /**
   * The ends of the connections in `RestoreOptions.connections`, as far as they could continue. The caller owns them;
   * a second call returns none. Nothing is lost while they wait, and they end with the burrow.
   */
  takeEnds(): readonly OpenEnd[]
  /**
   * Ends every process and removes everything of the burrow.
   * Post: nothing of it is left on the host. May be called again.
   */
  destroy(): Promise<void>
  /** Disconnects from the burrow without touching it: it lives on and can be adopted. */
  release(): void
}

export interface Engine extends EngineVolumes, EngineFiles, AsyncDisposable {
  readonly name: string
  readonly capabilities: EngineCapabilities
  /** What burrows of this engine can be isolated by, on this host. */
  readonly isolations: readonly Isolation[]
  /** How often background work has failed since the engine was opened. */
  readonly failures: ReadonlyMap<EngineFailureKind, number>
  /**
   * Path of an addon with which a thread of this process takes its ends of connections out of burrows, and puts them
   * back: see `GateKeeper`. Undefined when connections cannot outlive their burrow here.
   */
  readonly endAddon?: string | undefined

  /** Throws `isolation_unavailable` for one that this engine does not have here. */
  capabilitiesOf(isolation: Isolation): EngineCapabilities
  /** Sends snapshots of this isolation to other hosts. Undefined when this engine cannot. */
  transferOf(isolation: Isolation): SnapshotTransfer | undefined
  /** The isolation of burrows made from this snapshot; undefined when this engine has no such snapshot. Cheap. */
  isolationOf(snapshotId: SnapshotId): Isolation | undefined
  /** The isolation that a template of this host asks for; undefined when it asks for none, or does not exist. */
  isolationOfTemplate(name: string): Promise<Isolation | undefined>
  /**
   * Pre: the template exists (`template_not_found`), limits and env are within bounds (`invalid_argument`), the volumes
   * exist (`not_found`), and their paths neither overlap nor hide files that the template's processes have open
   * (`invalid_argument`).
   * Post: the agent answers. On failure or abort nothing of the burrow is left.
   */
  createBurrow(request: CreateBurrow, signal?: AbortSignal): Promise<Burrow>
  /**
   * Does ahead of a full snapshot what can be done while the burrow runs, which is stopped for milliseconds at a time.
   * An abort ends it soon, and what was done need not be done again.
   */
  prepareSnapshot(burrow: Burrow, signal?: AbortSignal): Promise<void>
  /**
   * Saves a burrow and ends it. `leave` says whether a new burrow continues from the snapshot: `running`, `frozen`, or
   * not at all (`gone`).
   * With `kind: 'files'` processes and memory are not saved, so nothing that they do can make it fail. The burrow
   * itself continues, frozen meanwhile, or ends when `leave` is `gone`. A burrow that has ended by itself can be saved
   * that way too.
   * Post: the snapshot is on disk and immutable. An error means that nothing was saved: the burrow continues as before
   * (a process may notice that it was stopped), and the error (`snapshot_refused`, `no_space`) says why, with the pid
   * when one process is the cause. A failure after the snapshot is on disk is not an error but
   * `SavedBurrow.resumeError`.
   */
  snapshot(burrow: Burrow, options: SnapshotOptions): Promise<SavedBurrow>
  /**
   * Makes a burrow from a snapshot; any number of times, at the same time too, and after a reboot. The snapshot does
   * not change.
   * Pre: it can run here and its manifest names the sandbox `options.of` (`snapshot_unusable` says why not, before
   * anything starts).
   */
  restore(snapshotId: SnapshotId, options: RestoreOptions): Promise<Burrow>
  /**
   * Takes one snapshot and continues from it in the parent and in a child for each id. Children and parent differ only
   * in identity and, unless `reseed` is false, in random numbers. Each can be used as soon as `onParent` or `onChild`
   * has it, while others are still restored. Does not wait for the disk. On an error no child is left, not even one
   * that `onChild` got, and the parent continues, here or in the burrow that `onParent` got. A parent that is saved but
   * cannot continue is not an error but `ForkedBurrow.resumeError`.
   */
  fork(burrow: Burrow, options: ForkOptions): Promise<ForkedBurrow>
  /**
   * Ends a burrow and continues from one of its older snapshots. Pre: the snapshot is usable; it is checked before
   * anything ends.
   */
  rollback(burrow: Burrow, snapshotId: SnapshotId): Promise<Burrow>
  /**
   * Lists the snapshots that this engine understands. One that is damaged or has another format is not listed, but
   * keeps all files it refers to. Those in `except` are not even read.
   */
  listSnapshots(options?: { except?: ReadonlySet<SnapshotId> }): Promise<readonly Snapshot[]>
  /** Throws `not_found`, or `snapshot_unusable` when it cannot be read. */
  getSnapshot(snapshotId: SnapshotId): Promise<Snapshot>
  /**
   * The files of a snapshot as a burrow of it would see them, without volumes. Restores nothing. Calls throw `not_found`
   * when there is no such snapshot.
   */
  snapshotFiles(snapshotId: SnapshotId): SnapshotFiles
  /** Throws `isolation_unsupported` for limits that burrows of a snapshot cannot have. Absent: they can have any. */
  checkLimits?(snapshotId: SnapshotId, limits: BurrowLimitsInput): Promise<void>
  /**
   * Makes a snapshot of files from a container image. Layers that an earlier image brought are used again, also
   * those of another key. Pre: the caller may read what `image` names. On failure no snapshot is left; what has
   * arrived of the image is kept for a while, for another try.
   */
  importImage(request: ImportImage): Promise<ImportedImage>
  /**
   * Resolves when a snapshot is on disk. Only one that did not wait for the disk may not be: a power cut undoes it
   * (`AdoptedBurrows.undone`) until the engine has written it in the background. Snapshots that rely on it wait by
   * themselves.
   */
  syncSnapshot(snapshotId: SnapshotId): Promise<void>
  /** The disk space of all snapshots. Reads the disk: call it rarely. */
  storage(): Promise<StorageReport>
  /**
   * Lists what is stored as parts that are checked one by one; a part that several snapshots share is listed once.
   * Parts of one snapshot (`not_found`), or of all snapshots and templates.
   */
  listParts(snapshotId?: SnapshotId): Promise<readonly StoredPart[]>
  /**
   * Reads a part from the disk, not from the page cache, and compares it with its checksums. Those of sandbox files are
   * made soon after a sleep. A part that was deleted meanwhile looks damaged.
   */
  checkPart(part: StoredPart, options: CheckPartOptions): Promise<PartCheck>
  /**
   * Reads all of a snapshot: memory, images and files, but not the root file system of its template. Throws
   * `snapshot_unusable` with the reason when it could not be restored here.
   */
  verifySnapshot(snapshotId: SnapshotId): Promise<void>
  /** Measures what was written in this burrow and in the burrows before it, in turns. */
  measureWritten(burrow: Burrow, stopAt?: StopAt): Measurement
  /** Deletes a snapshot, even a damaged one, and frees what nothing else refers to. Throws `not_found`. */
  deleteSnapshot(snapshotId: SnapshotId): Promise<void>
  /**
   * Takes over the burrows that an earlier process left running, and removes the rest of those that have ended.
   * Pre: no other process uses this engine's data directory, and this one holds no burrow.
   */
  adoptBurrows(): Promise<AdoptedBurrows>
  /** Disconnects from all burrows, which live on, see `Burrow.release`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** The outcome of saving a burrow. */
export interface SavedBurrow {
  readonly snapshot: Snapshot
  /** The burrow that continues. Absent when none does: `leave` was `gone`, or `resumeError` says why. */
  readonly burrow?: Burrow
  /**
   * Saved but not resumed: why the sandbox is not as `leave` asked. All of it is in the snapshot, and the saved burrow
   * has ended.
   */
  readonly resumeError?: unknown
  /** The connections that a restore of this snapshot, for the same sandbox, can continue; see `GateKeeper`. */
  readonly connections?: ParkedConnections
}

export interface Snapshot {
  readonly id: SnapshotId
  readonly sandboxId: SandboxId
  /** `full` has files, memory and processes. A burrow made from `files` boots. */
  readonly kind: 'full' | 'files'
  /** The snapshot that the saved burrow had been restored from. */
  readonly parent?: SnapshotId
  readonly template: string
  readonly createdAt: Date
  readonly limits: BurrowLimits
  /** Mounted again in burrows made from it, unless other volumes are given. Their content is not part of it. */
  readonly volumes: readonly VolumeMount[]
  /** Its size on disk; memory files may be shared with other snapshots. */
  readonly bytes: { readonly images: number; readonly memory: number }
  /**
   * When the earliest timer or time-out of its processes ends, by the wall clock. Only a hint: processes inside decide
   * what it says. Absent when there is none, or when `SnapshotOptions.keepTimers` was not set.
   */
  readonly deadline?: Date
}

export interface StoredPart {
  /** Identifies the part while it exists. */
  readonly key: string
  readonly kind: 'images' | 'memory' | 'layer' | 'template'
  /** The snapshots that are damaged when this part is. */
  readonly snapshots: readonly SnapshotId[]
  /** The templates that are damaged when this part is, by name. */
  readonly templates: readonly string[]
}

export interface CheckPartOptions {
  /** Reads at most this much, at idle priority. Undefined: as fast as the disk allows. */
  readonly bytesPerSecond?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface PartCheck {
  readonly readBytes: number
  /** What is wrong, in words; absent when the part is undamaged. */
  readonly damage?: string
}

/** Runs `restore` when the caller's limiter has room for one more restore on this host. */
export type LimitRestore = <Value>(sandboxId: SandboxId, restore: () => Promise<Value>) => Promise<Value>

export interface SnapshotOptions {
  readonly leave: 'running' | 'frozen' | 'gone'
  /** `full` by default. */
  readonly kind?: 'full' | 'files'
  /** With kind `full`: finds the `deadline`, and lets sleeping threads continue with the time they have left. */
  readonly keepTimers?: boolean
  /**
   * With kind `full` and `leave: 'running'`: does not wait for the disk. Until the engine has written the snapshot in
   * the background, a power cut undoes it (`AdoptedBurrows.undone`).
   */
  readonly isUnsynced?: boolean
  /** Limits the restore that continues the sandbox. When it refuses, the sandbox stays saved and asleep. */
  readonly limitRestore?: LimitRestore
  /** With kind `full`: an abort before the snapshot is on disk undoes it, and the error is the signal's reason. */
  readonly signal?: AbortSignal
}

export interface RestoreOptions {
  readonly sandboxId: SandboxId
  /** The sandbox that the snapshot must have been taken of; any sandbox when absent. */
  readonly of?: SandboxId | undefined
  readonly limits?: BurrowLimitsInput
  /** Another than the snapshot was taken with: then only its files are used. */
  readonly isolation?: Isolation | undefined
  /** With such another isolation: makes up for the processes that the files were saved without. */
  readonly preparation?: Preparation | undefined
  /**
   * Replaces the volumes of the snapshot. A file that its processes had open on a volume is opened again by its path;
   * to them a missing file looks as if it was deleted while they had it open.
   */
  readonly volumes?: readonly VolumeMount[]
  /** As in `CreateBurrow`, for snapshots of kind `files`; full snapshots keep their user. */
  readonly user?: string | undefined
  /** For snapshots of kind `files`: how programs start, instead of what the snapshot says. Later snapshots have it. */
  readonly image?: ProgramSettings | undefined
  /** As in `CreateBurrow`; added to the environment in the snapshot. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /**
   * The reason that hooks inside get. `create` is for a snapshot that was prepared as a template, in which no process
   * of a user has run: the engine may restore burrows of it ahead of need.
   */
  readonly reason?: 'create' | 'resume' | 'fork' | 'rollback'
  /** Whether random generators get a new seed; true by default. */
  readonly reseed?: boolean
  /**
   * Whether the time since the snapshot was taken has passed for its processes: then their clocks and timers are that
   * much further. False by default: the monotonic clock and timers stood still.
   */
  readonly passTime?: boolean
  /** What saving this snapshot returned. Each connection may continue in one burrow only. */
  readonly connections?: ParkedConnections | undefined
  readonly signal?: AbortSignal
}

export interface LostBurrow {
  readonly id: BurrowId
  readonly sandboxId: SandboxId
  readonly end: BurrowEnd
  /**
   * Its files, saved before it was removed. Absent when the burrow was stored, or when they could not be saved, for
   * lack of space for example: then the next adoption reports the burrow as lost again.
   */
  readonly filesSnapshotId?: SnapshotId
}

export interface AdoptedBurrows {
  readonly burrows: readonly Burrow[]
  /** Burrows that have a record but have ended; their sandboxes are affected. */
  readonly lost: readonly LostBurrow[]
  /** Snapshots of forks that were not on disk when the machine stopped. They are removed. */
  readonly undone: readonly SnapshotId[]
}
