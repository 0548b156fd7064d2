mod client;
mod provider;
mod telegram;
