export { keyIn, toE2bKey } from './api-key.ts'
export type { Backend, ForwardRequest } from './backend.ts'
export { E2b } from './e2b.ts'
export type { RecordStore, SandboxRecord } from './sandbox/record.ts'
