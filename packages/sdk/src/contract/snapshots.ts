// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type CreateSnapshotBody = { name?: string; kind?: 'files' | 'full' | undefined }

export type SnapshotAnswer = {
  id: string
  sandboxId: string
  name?: string | undefined
  kind: 'files' | 'full'
  parentId?: string | undefined
  template: string
  createdAt: string
  isHead: boolean
  damage?: { reason: string; foundAt: string } | undefined
  bytes: { images: number; memory: number }
}

export type SnapshotPageAnswer = { items: readonly SnapshotAnswer[]; nextCursor?: string | undefined }
