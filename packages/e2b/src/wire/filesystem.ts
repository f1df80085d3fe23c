import { describeFile } from './describe-file.ts'

/** Reads and changes the file tree, and follows its changes. */
export const filesystemService = describeFile({
  package: 'filesystem',
  service: 'Filesystem',
  methods: {
    Stat: 'StatRequest -> StatResponse',
    MakeDir: 'MakeDirRequest -> MakeDirResponse',
    Move: 'MoveRequest -> MoveResponse',
    ListDir: 'ListDirRequest -> ListDirResponse',
    Remove: 'RemoveRequest -> RemoveResponse',
    WatchDir: 'WatchDirRequest -> stream WatchDirResponse',
    CreateWatcher: 'CreateWatcherRequest -> CreateWatcherResponse',
    GetWatcherEvents: 'GetWatcherEventsRequest -> GetWatcherEventsResponse',
    RemoveWatcher: 'RemoveWatcherRequest -> RemoveWatcherResponse',
  },
  enums: {
    FileType: {
      FILE_TYPE_UNSPECIFIED: 0,
      FILE_TYPE_FILE: 1,
      FILE_TYPE_DIRECTORY: 2,
      FILE_TYPE_SYMLINK: 3,
    },
    EventType: {
      EVENT_TYPE_UNSPECIFIED: 0,
      EVENT_TYPE_CREATE: 1,
      EVENT_TYPE_WRITE: 2,
      EVENT_TYPE_REMOVE: 3,
      EVENT_TYPE_RENAME: 4,
      EVENT_TYPE_CHMOD: 5,
    },
  },
  messages: {
    EntryInfo: {
      name: '1 string',
      type: '2 FileType',
      path: '3 string',
      size: '4 int64',
      mode: '5 uint32',
      permissions: '6 string',
      owner: '7 string',
      group: '8 string',
      modified_time: '9 Timestamp',
      symlink_target: '10 optional string',
      metadata: '11 map',
    },
    StatRequest: { path: '1 string' },
    StatResponse: { entry: '1 EntryInfo' },
    MakeDirRequest: { path: '1 string' },
    MakeDirResponse: { entry: '1 EntryInfo' },
    MoveRequest: { source: '1 string', destination: '2 string' },
    MoveResponse: { entry: '1 EntryInfo' },
    ListDirRequest: { path: '1 string', depth: '2 uint32' },
    ListDirResponse: { entries: '1 repeated EntryInfo' },
    RemoveRequest: { path: '1 string' },
    RemoveResponse: {},
    WatchDirRequest: {
      path: '1 string',
      recursive: '2 bool',
      include_entry: '3 bool',
      allow_network_mounts: '4 bool',
    },
    FilesystemEvent: { name: '1 string', type: '2 EventType', entry: '3 optional EntryInfo' },
    WatchStart: {},
    KeepAlive: {},
    WatchDirResponse: {
      start: '1 event: WatchStart',
      filesystem: '2 event: FilesystemEvent',
      keepalive: '3 event: KeepAlive',
    },
    CreateWatcherRequest: {
      path: '1 string',
      recursive: '2 bool',
      include_entry: '3 bool',
      allow_network_mounts: '4 bool',
    },
    CreateWatcherResponse: { watcher_id: '1 string' },
    GetWatcherEventsRequest: { watcher_id: '1 string' },
    GetWatcherEventsResponse: { events: '1 repeated FilesystemEvent' },
    RemoveWatcherRequest: { watcher_id: '1 string' },
    RemoveWatcherResponse: {},
  },
})

export const FILE_TYPE = { file: 1, directory: 2, symlink: 3 } as const
export const EVENT_TYPE = { created: 1, modified: 2, deleted: 3, renamed: 4 } as const

export interface EntryInfo {
  readonly name: string
  readonly type: number
  readonly path: string
  readonly size: bigint
  readonly mode: number
  readonly permissions: string
  readonly owner: string
  readonly group: string
  readonly modifiedTime: { readonly seconds: bigint; readonly nanos: number }
  readonly symlinkTarget?: string
  readonly metadata: Readonly<Record<string, string>>
}

export interface FilesystemEvent {
  readonly name: string
  readonly type: number
  readonly entry?: EntryInfo
}

export interface WatchRequest {
  readonly path: string
  readonly recursive: boolean
  readonly includeEntry: boolean
}
