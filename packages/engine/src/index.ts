export type { BurrowMemory, BurrowUsage, CopiedProgram, ShownDisk } from './burrow-usage.ts'
export type {
  AdoptedBurrows,
  Burrow,
  BurrowEnd,
  CheckPartOptions,
  CreateBurrow,
  Engine,
  LimitRestore,
  LostBurrow,
  PartCheck,
  RestoreOptions,
  SavedBurrow,
  Snapshot,
  SnapshotOptions,
  StoredPart,
  VolumeMount,
} from './engine.ts'
export type { EngineCapabilities } from './engine-capabilities.ts'
export type { EngineFiles, FileTree, Preparation } from './engine-files.ts'
export type {
  ImageCredentials,
  ImageDescription,
  ImageNetwork,
  ImportedImage,
  ImportImage,
  ProgramSettings,
} from './engine-images.ts'
export type { EngineFailureKind, Log } from './engine-log.ts'
export type { EngineVolumes, SizeLimit, VolumeFiles, VolumeLimits } from './engine-volumes.ts'
export type { ForkedBurrow, ForkedParent, ForkOptions } from './fork-options.ts'
export type { Gate, GateKeeper, OpenEnd, ParkedConnections, ParkedEnd } from './gate.ts'
export type {
  BackgroundProcess,
  ByteSource,
  Completions,
  ConnectProcess,
  ContextInfo,
  ContextVariables,
  CreateContext,
  FileChange,
  FileStat,
  FileUser,
  Follow,
  Guest,
  GuestContexts,
  GuestFiles,
  GuestInfo,
  GuestPorts,
  GuestProcesses,
  GuestRuns,
  GuestVariables,
  ListeningPort,
  OpenFile,
  PortConnection,
  ProcessConnection,
  ProcessExit,
  ProcessInfo,
  ProcessOutput,
  ReadRows,
  ReconnectedProcess,
  RunInput,
  SnapshotFiles,
  StartProcess,
  StartRun,
  VariableDetail,
  VariableInfo,
  VariableTable,
} from './guest.ts'
export { type ImageSource, parseImageSource } from './image-source.ts'
export type { DiskUse, Measurement, StopAt, StorageReport } from './measurement.ts'
export { capabilitiesIn, ofIsolation } from './one-isolation.ts'
export type {
  ArrivingPart,
  ArrivingSnapshot,
  BaseTransfer,
  Extent,
  FetchedBases,
  HostAbilities,
  PortablePart,
  PortableSnapshot,
  SnapshotNeeds,
  SnapshotTransfer,
  SparseFile,
} from './snapshot-transfer.ts'
