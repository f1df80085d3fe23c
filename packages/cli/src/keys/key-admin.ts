import type { CreatedKeyAnswer, CreateKeyBody, KeyAnswer, UpdateKeyBody } from '@dormouse/contracts/http'

/** Manages keys, through the API or in the database. The types are those of `/v1/keys`. */
export interface KeyAdmin {
  create(request: CreateKeyBody): Promise<CreatedKeyAnswer>
  list(): Promise<readonly KeyAnswer[]>
  update(id: string, change: UpdateKeyBody): Promise<KeyAnswer>
  revoke(id: string): Promise<KeyAnswer>
}
