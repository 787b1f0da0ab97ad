"""What is declared: hosts, packets, masks, and the plan both engines take."""
