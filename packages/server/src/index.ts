export { type LoadConfig, loadConfig, type ServerConfig } from './config/config.ts'
export { type Env, readEnv } from './config/env.ts'
export { openDataDirectory } from './data-directory/open-data-directory.ts'
export { type RunServer, runServer } from './run-server.ts'
