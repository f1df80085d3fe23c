// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type CreateTemplateBody = {
  name: string
  description?: string
  snapshotId?: string
  packages?: string[]
  pip?: string[]
  commands?: string[]
  preload?: string[]
}

export type TemplateAnswer = {
  name: string
  description?: string | undefined
  state: 'building' | 'failed' | 'ready'
  source: 'built_in' | 'description' | 'snapshot'
  snapshotId?: string | undefined
  createdAt: string
  bytes?: number | undefined
  logTail?: string | undefined
  error?: string | undefined
}

export type TemplatePageAnswer = { items: readonly TemplateAnswer[]; nextCursor?: string | undefined }
