// Starts the language server of pkc when the first .pk file is opened.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("pk").get("server");
  client = new LanguageClient("pkc", { command, args: ["lsp"] }, { documentSelector: [{ language: "pk" }] });
  return client.start();
};

exports.deactivate = () => client && client.stop();
