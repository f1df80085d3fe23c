// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type CreateSecretBody = { name: string; value: string; domains: string[] }

export type SecretAnswer = {
  name: string
  placeholder: string
  domains: readonly string[]
  createdAt: string
  updatedAt: string
  usedBy: readonly string[]
}

export type SecretPageAnswer = { items: readonly SecretAnswer[]; nextCursor?: string | undefined }

export type UpdateSecretBody = { value?: string; domains?: string[] }
