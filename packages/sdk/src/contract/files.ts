// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type FileChangeAnswer =
  | { type: 'created' | 'deleted' | 'modified' | 'overflow' | 'ready'; path: string }
  | { type: 'moved'; path: string; from: string }

export type FileListAnswer = { items: readonly FileStatAnswer[] }

export type FileStatAnswer = {
  path: string
  name: string
  type: 'device' | 'directory' | 'fifo' | 'file' | 'socket' | 'symlink'
  sizeBytes: number
  mode: string
  uid: number
  gid: number
  user: string
  group: string
  modifiedAt: string
  target?: string | undefined
}

export type MakeDirectoryBody = { path: string; parents?: boolean; mode?: string; user?: string }

export type MoveFileBody = { from: string; to: string; overwrite?: boolean; user?: string }
