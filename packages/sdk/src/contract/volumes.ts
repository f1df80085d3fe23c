// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type CloneVolumeBody = { name: string; readOnly?: boolean | undefined; sizeBytes?: number }

export type CreateVolumeBody = { name: string; sizeBytes?: number }

export type UpdateVolumeBody = { sizeBytes: number }

export type VolumeAnswer = {
  name: string
  createdAt: string
  bytes?: number | undefined
  files?: number | undefined
  sizeBytes: number
  sizeLimit: 'hard' | 'measured'
  usedBy: readonly string[]
  access: 'own' | 'read' | 'write'
  readOnly: boolean
  clonedFrom?: string | undefined
  oneMoment?: boolean | undefined
  sharedWith: readonly { keyId: string; name: string; access: 'read' | 'write' }[]
}

export type VolumePageAnswer = { items: readonly VolumeAnswer[]; nextCursor?: string | undefined }
