export type { Access, CreatedKey, CreateKey, KeyView, Scope, UpdateKey } from './access/access.ts'
export { type Client, clientFile, findClient, writeClient } from './access/client-file.ts'
export { type OpenAccess, openStoredAccess } from './access/open-stored-access.ts'
export { linuxBuilder } from './composition/linux-builder.ts'
export { type OpenServer, openServer, type ServerCore } from './composition/open-server.ts'
export { type RunServer, runServer } from './composition/run-server.ts'
export type { EndedNews, ReadyNews, ServerNews } from './composition/server-news.ts'
export { localUrl } from './config/bind.ts'
export { type LoadConfig, loadConfig, type ServerConfig } from './config/config.ts'
export { type Env, readEnv } from './config/env.ts'
export { openDataDirectory } from './data-directory/open-data-directory.ts'
export { SpaceReserve } from './host/space-reserve.ts'
export type {
  Caller,
  CreateSandbox,
  Sandbox,
  SandboxView,
} from './lifecycle/service.ts'
